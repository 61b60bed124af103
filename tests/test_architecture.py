"""The architecture holds: imports point one way, folders form no cycle, names are unique.

`python -m tests.test_architecture` draws the graph of folders into ARCHITECTURE.md.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    path
    for package in ("common", "coordinator", "shard")
    for path in (ROOT / package).rglob("*.py")
)


GRAPH_BEGIN = "<!-- folders: drawn by python -m tests.test_architecture -->"
GRAPH_END = "<!-- /folders -->"


def folder_of(path: Path) -> str:
    """Return the folder of a file as the graph shows it; a file at the top is one of its own."""
    relative = path.relative_to(ROOT)
    if len(relative.parts) == 2:
        return relative.parts[0] if relative.parts[0] == "common" else str(relative)[:-3]
    return "/".join(relative.parts[:2])


def innermost_folder_of(path: Path) -> str:
    """Return the folder of a file, subfolders apart; a file at the top is one of its own."""
    relative = path.relative_to(ROOT)
    return folder_of(path) if len(relative.parts) == 2 else str(relative.parent)


def folder_graph(place_of: Callable[[Path], str] = folder_of) -> dict[str, set[str]]:
    """Return which folder imports from which others, type-checking imports included."""
    folders = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): place_of(path) for path in MODULES
    }
    folders.update(
        {
            name.removesuffix(".__init__"): folder
            for name, folder in folders.items()
            if name.endswith(".__init__") and name.count(".") > 1
        }
    )
    graph: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        if path.name == "__init__.py" and len(path.relative_to(ROOT).parts) == 2:
            continue  # a package's own file
        folder = place_of(path)
        graph[folder] |= {folders[name] for name in imported(path) if name in folders} - {folder}
    return dict(graph)


def file_graph() -> dict[str, frozenset[str]]:
    """Return which module imports which others, type-checking imports included.

    A package is imported only by those that use what its own file defines.
    """
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    graph = {}
    for name, path in modules.items():
        found = imported(path) & modules.keys()
        graph[name] = found - {name} - {other.rpartition(".")[0] for other in found}
    return graph


def drawn() -> str:
    """Return the graph as the table of ARCHITECTURE.md: every folder below those that use it."""
    graph = folder_graph()
    order = [folder for folder in TopologicalSorter(graph).static_order() if folder in graph]
    rows = [
        f"| `{folder}` | {' '.join(sorted(graph[folder])) or '-'} |" for folder in reversed(order)
    ]
    return "\n".join([GRAPH_BEGIN, "| folder | imports from |", "|---|---|", *rows, GRAPH_END])


class Outline(NamedTuple):
    """What these tests ask of a file; a tree of all of its nodes would be large."""

    imported: frozenset[str]
    classes: tuple[str, ...]


@cache
def outline_of(path: Path) -> Outline:
    """Read a file: the names of all modules that it imports, at any level, and of its classes."""
    names = set()
    classes = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
    return Outline(frozenset(names), tuple(classes))


def imported(path: Path) -> frozenset[str]:
    """Return the names of all modules that a file imports, at any level."""
    return outline_of(path).imported


def test_imports_point_from_both_processes_to_common() -> None:
    forbidden = {
        "common": {"coordinator", "shard", "tests", "benchmarks"},
        "coordinator": {"shard", "tests", "benchmarks"},
        "shard": {"coordinator", "tests", "benchmarks"},
    }
    found = {
        path: {name.split(".")[0] for name in imported(path)}
        & forbidden[path.relative_to(ROOT).parts[0]]
        for path in MODULES
    }
    assert {str(path): packages for path, packages in found.items() if packages} == {}


def test_folders_form_no_circle() -> None:
    TopologicalSorter(folder_graph()).prepare()  # names the circle that it finds


def test_a_folder_and_its_subfolders_form_no_circle() -> None:
    TopologicalSorter(folder_graph(innermost_folder_of)).prepare()


def test_files_form_no_circle() -> None:
    TopologicalSorter(file_graph()).prepare()


def test_the_graph_of_folders_is_drawn_as_it_is() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    begin, end = text.index(GRAPH_BEGIN), text.index(GRAPH_END)
    shown = set(text[begin:end].splitlines())
    missing = sorted(set(drawn().splitlines()) - {GRAPH_END} - shown)
    assert not missing, "draw it again: python -m tests.test_architecture"


def test_no_class_name_stands_for_two_things() -> None:
    classes = chain.from_iterable(outline_of(path).classes for path in MODULES)
    names = Counter(name for name in classes if not name.startswith("_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_pools_of_threads_are_those_whose_refusals_are_final() -> None:
    users = [str(p.relative_to(ROOT)) for p in MODULES if "ThreadPoolExecutor" in p.read_text()]
    assert users == ["common/process/thread_pool.py"]


def test_work_that_outlives_a_cancellation_is_not_shielded_by_asyncio() -> None:
    assert not [p for p in MODULES if "asyncio.shield(" in p.read_text()], "see uncancelled.py"


@pytest.mark.parametrize(
    ("library", "owner"),
    [
        ("lmdb", "shard/storage/lmdb_environment.py"),
        ("Stemmer", "common/analysis/stemmer.py"),
        ("difflib", "common/nearest_name.py"),
    ],
)
def test_a_library_is_wrapped_in_one_module(library: str, owner: str) -> None:
    users = [str(p.relative_to(ROOT)) for p in MODULES if library in imported(p)]
    assert users == [owner]


def test_every_path_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = {
        word.strip("`,.;:()").split("::")[0]
        for word in text.split()
        if word.startswith("`") and "/" in word and ".py" in word
    }
    assert named, "ARCHITECTURE.md names no files"
    missing = sorted(name for name in named if not (ROOT / name).exists())
    assert not missing


def test_every_function_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for word in text.split():
        name = word.strip("`,.;:()")
        if "::" not in name:
            continue
        path, _, target = name.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        body: list[ast.stmt] = tree.body
        for part in target.split("."):
            found = [
                node
                for node in body
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name == part
            ]
            assert found, f"{name} is not in {path}"
            body = found[0].body


def test_every_module_that_a_module_names_exists() -> None:
    missing = [
        (str(path.relative_to(ROOT)), name)
        for path in MODULES
        for name in re.findall(r"`((?:common|coordinator|shard)(?:\.\w+){2,})", path.read_text())
        if not _is_there(*name.rsplit(".", 1))
    ]
    assert missing == []


def _is_there(module: str, name: str) -> bool:
    """Return whether a module has a submodule, or something else, of a name."""
    place = ROOT.joinpath(*module.split("."))
    if (place / f"{name}.py").exists() or (place / name).is_dir():
        return True
    files = [one for one in (place.with_suffix(".py"), place / "__init__.py") if one.exists()]
    return any(re.search(rf"\b{name}\b", one.read_text()) for one in files)


def draw() -> None:
    """Write the graph of folders into ARCHITECTURE.md."""
    path = ROOT / "ARCHITECTURE.md"
    text = path.read_text()
    begin, end = text.index(GRAPH_BEGIN), text.index(GRAPH_END) + len(GRAPH_END)
    path.write_text(text[:begin] + drawn() + text[end:])


if __name__ == "__main__":
    draw()


def test_partition_is_closed() -> None:
    """What changes in it changes by its own verbs: its public fields are final."""
    path = ROOT / "shard" / "partition" / "partition.py"
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    (partition,) = (node for node in classes if node.name == "Partition")
    for node in ast.walk(partition):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            is_final = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Final"
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            fields = [
                one.attr
                for one in targets
                if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)
            ]
            assert is_final or all(name.startswith("_") for name in fields), fields
    for file in (ROOT / "shard").rglob("*.py"):
        assert file == path or "partition._" not in file.read_text(), file


FOLDERS = sorted(
    str(path.parent.relative_to(ROOT))
    for package in ("common", "coordinator", "shard")
    for path in (ROOT / package).rglob("__init__.py")
)


def map_of(folder: str) -> str:
    """Return the map of a folder: the docstring of its `__init__`."""
    return ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_is_on_the_map_of_its_folder(folder: str) -> None:
    """So are the subfolders. The messages need none: their folder exports each by its module."""
    modules = {module.stem for module in (ROOT / folder).glob("*.py")} - {"__init__", "__main__"}
    modules |= {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
    if folder == "common/protocol/messages":
        modules = set()
    drawn_map = map_of(folder)
    assert {module for module in modules if not re.search(rf"\b{module}\b", drawn_map)} == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_of_a_subfolder_that_a_map_names_exists(folder: str) -> None:
    subfolders = [path.parent.name for path in (ROOT / folder).glob("*/__init__.py")]
    named = re.findall(rf"\b((?:{'|'.join(subfolders)})/\w+)", map_of(folder)) if subfolders else []
    places = [ROOT / folder / name for name in named]
    assert [
        str(one) for one in places if not (one.is_dir() or one.with_suffix(".py").exists())
    ] == []
