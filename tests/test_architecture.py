"""What the structure promises: imports point one way, one module per foreign library."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    path
    for package in ("common", "coordinator", "shard")
    for path in (ROOT / package).rglob("*.py")
)


def imported(path: Path) -> set[str]:
    """Return the names of all modules that a file imports, at any level."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_from_both_processes_to_common(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    forbidden = {
        "common": {"coordinator", "shard", "tests", "benchmarks"},
        "coordinator": {"shard", "tests", "benchmarks"},
        "shard": {"coordinator", "tests", "benchmarks"},
    }[package]
    assert not {name.split(".")[0] for name in imported(path)} & forbidden


@pytest.mark.parametrize(
    ("library", "owner"),
    [("lmdb", "shard/storage/environment.py"), ("Stemmer", "common/analysis/languages.py")],
)
def test_untyped_libraries_are_wrapped_in_one_module(library: str, owner: str) -> None:
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
