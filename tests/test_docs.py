"""Everything that the documents name exists: tests, files, format versions, pages, links."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import click
import pytest
import yaml

from common.index_configuration_parser import CONFIGURATION_KEYS
from coordinator.cli.commands import main
from coordinator.routes.reference_generator import reference

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/README.md",
    "benchmarks/README.md",
    "shard/storage/FORMAT.md",
    "coordinator/replication/README.md",
    "docs/decisions.md",
]


def functions(path: Path) -> set[str]:
    """Return the names of all functions of a file, methods included."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_test_that_the_readme_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "README.md").read_text())
    assert len(named) > 14
    missing = [f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)]
    assert not missing


def test_every_command_that_runs_some_tests_selects_one() -> None:
    """`-k` with a word that no test has runs nothing, and says so in one easily missed line."""
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for path, word in re.findall(r"pytest (tests/[\w/]+\.py) -k (\w+)", text):
            names = functions(ROOT / path)
            assert [name for name in names if name.startswith("test_") and word in name], word


def test_the_readme_says_where_it_runs_and_how_to_install_it() -> None:
    text = (ROOT / "README.md").read_text()
    for said in ("Linux (glibc)", "Python ≥ 3.11", "`pipx install`", "`uv tool install`"):
        assert said in text


@pytest.mark.parametrize("row", ["full text, top 10", "full text + 4 facets"])
def test_the_readme_begins_with_figures_of_its_table(row: str) -> None:
    text = (ROOT / "README.md").read_text()
    summary = re.search(r"^- \*\*About a millisecond\.\*\*(.*?)^- ", text, re.DOTALL | re.MULTILINE)
    measured = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", text, re.MULTILINE)
    assert summary is not None
    assert measured is not None
    _, ours, _, lucene, *_ = (cell.strip(" *") for cell in measured[1].split("|"))
    known = re.findall(r"\d+\.\d+", summary[1])
    assert ours in known
    assert lucene in known


def test_every_promise_names_a_test() -> None:
    rows = re.findall(r"^\| P(\d+) \|.*\|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert rows == [str(n) for n in range(1, 15)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_names_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    named = re.findall(
        r"`((?:common|coordinator|shard|tests|benchmarks|deploy)/[\w./-]+\.\w+)", text
    )
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing


PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command and of all below it."""
    context = click.Context(command)
    options = {name for one in command.get_params(context) for name in one.opts}
    options |= {name for one in command.get_params(context) for name in one.secondary_opts}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            options |= options_of(one)
    return options


@pytest.mark.parametrize("document", ["README.md", "deploy/README.md", *PAGES])
def test_every_option_that_a_document_names_exists(document: str) -> None:
    """Options are those of `serve` and of the commands that their section names, else of any."""
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    wrong = []
    for section in re.split(r"^#+ ", (ROOT / document).read_text(), flags=re.MULTILINE):
        names = set(re.findall(r"\bfacetd ([a-z]+)", section)) & commands.keys()
        known: set[str] = set()
        for name in {*names, "serve"} if names else commands:
            command = commands[name]
            assert command is not None
            known |= options_of(command)
        lines = re.findall(r"\bfacetd ([a-z-]+ [^`|#\n]*)", section)
        named = {one for line in lines for one in re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)}
        named |= set(re.findall(r"`(--[a-z][a-z-]*)[^`]*`", section))
        wrong += [(sorted(names), one) for one in sorted(named - known - {"--long"})]  # pytest's
    assert not wrong


def test_every_option_of_a_benchmark_that_a_document_names_exists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "\n".join((ROOT / name).read_text() for name in [*DOCUMENTS, *PAGES])
    commands = re.findall(r"python -m (benchmarks(?:\.\w+)+)([^`#\n]*)", text)
    named: dict[str, set[str]] = {}
    for name, arguments in commands:
        named.setdefault(name, set()).update(re.findall(r"(?<![\w-])--[a-z][a-z-]*", arguments))
    assert len(named) > 14
    wrong = {}
    for name, options in named.items():
        if name == "benchmarks.peers.install":  # takes names, no options
            assert not options
            continue
        is_package = (ROOT / name.replace(".", "/")).is_dir()
        module = importlib.import_module(f"{name}.__main__" if is_package else name)
        with pytest.raises(SystemExit):
            module.main(["--help"])
        known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
        if unknown := options - known:
            wrong[name] = unknown
    assert not wrong


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_no_machine(document: str) -> None:
    text = (ROOT / document).read_text()
    assert not re.search(r"/root/|/work/|/opt/|/home/", text)


def test_the_format_has_the_versions_of_the_code() -> None:
    """Every version in FORMAT.md, and every one of these constants, equals the other."""
    text = (ROOT / "shard" / "storage" / "FORMAT.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| (\d+) \| `([\w/]+)\.py::(\w+)` \|$", text, re.MULTILINE)
    stated = {(path, name): int(version) for version, path, name in rows}
    assert {name for _, name in stated} == {
        "FORMAT",
        "MIN_READER",
        "SEGMENT_VERSION",
        "OLDEST_SEGMENT_VERSION",
        "VALUE_VERSION",
    }
    actual = {
        (path, name): getattr(importlib.import_module(path.replace("/", ".")), name)
        for path, name in stated
    }
    assert stated == actual
    title = re.match(r"# On-disk format of a shard, version (\d+)\n", text)
    assert title is not None
    assert int(title[1]) == actual["common/data_directory", "FORMAT"]


def test_the_reference_says_what_the_service_does() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    assert text == reference(), (
        "python -m coordinator.routes.reference_generator > docs/reference.md"
    )


def test_the_page_on_configuration_has_every_key() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    table = text[text.index("| key | meaning |") : text.index("\n\n", text.index("| key |"))]
    listed = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    without_effect = {"sortings", "searchableFields"}  # of itemsjs: another word, and nothing
    assert listed == set(CONFIGURATION_KEYS) - without_effect


def test_every_page_of_the_documentation_is_in_its_table_of_contents() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = {page for section in site["nav"] for pages in section.values() for page in pages}
    assert listed == {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}


@pytest.mark.parametrize("page", PAGES)
def test_what_belongs_to_a_list_is_indented_by_four(page: str) -> None:
    """For mkdocs less ends the list: commands become prose, and its numbers begin again."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    paragraphs = re.findall(r"\n\n( +)\S.*", text)
    assert not [indent for indent in paragraphs if len(indent) % 4]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]+\.md)\)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]
