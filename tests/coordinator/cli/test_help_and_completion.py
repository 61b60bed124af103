"""Help, completion and the man page: all made from the commands."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coordinator.cli.command_groups import CommandEntry
from coordinator.cli.commands import SECTIONS, main
from coordinator.command_line_client import Client
from tests.service import Service

ROOT = Path(__file__).resolve().parents[3]


def _all(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from _all(command, f"{path}{name} ")


def test_every_command_and_option_is_described_in_a_sentence() -> None:
    for path, command in _all(main):
        first = (command.help or "").strip().split("\n\n")[0]
        assert re.match(r"[A-Z].*\.$", first, re.DOTALL), path
        if path == "config":
            continue  # its options are the settings
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert re.match(r"[A-Z]", parameter.help or ""), (path, parameter.name)


def test_every_command_stands_under_a_heading() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    for title, entries in SECTIONS.items():
        assert f"{title}:" in text
        for entry in entries:
            assert f"  {entry.name} " in text


@pytest.mark.parametrize("entry", [one for entries in SECTIONS.values() for one in entries])
def test_what_the_help_lists_is_what_the_command_says(entry: CommandEntry) -> None:
    command = entry.load()
    assert command.name == entry.name
    assert command.get_short_help_str(limit=90) == entry.summary


LARGE = ("aiohttp", "asyncio", "numpy", "rich", "ssl", "uvloop")


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], ()),
        (["--version"], ()),
        (["serch"], ()),
        (["serve", "--help"], ()),
        (["config"], ()),
        (["man"], ("asyncio", "rich", "ssl", "numpy")),
        (["status", "--help"], ("rich", "ssl")),
        (["follow", "--help"], ("rich", "ssl")),
    ],
    ids=" ".join,
)
def test_a_command_imports_what_it_needs(arguments: list[str], allowed: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from coordinator.cli.commands import main\n"
        "try:\n"
        "    main(prog_name='facetd')\n"
        "finally:\n"
        f"    print('large:', *sorted(set({LARGE!r}) & set(sys.modules)))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    ).stdout
    found = set(shown.splitlines()[-1].removeprefix("large:").split())
    assert found <= set(allowed)


def test_garbage_is_collected_once_a_command_is_imported() -> None:
    program = (
        "import gc, sys\n"
        "from coordinator.__main__ import main\n"
        "before = gc.get_stats()[0]['collections']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    imports = gc.get_freeze_count(), gc.get_stats()[0]['collections'] - before\n"
        "    print(gc.isenabled(), *imports)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, "config"], capture_output=True, text=True, check=False
    ).stdout
    is_enabled, num_frozen, num_collections = shown.splitlines()[-1].split()
    assert is_enabled == "True"
    assert int(num_frozen) > 10_000
    assert int(num_collections) < 10, num_collections


@pytest.mark.parametrize(
    "name", [n for n in main.list_commands(click.Context(main)) if n != "shard"]
)
def test_examples_in_a_help_text_keep_their_lines(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"]).stdout
    assert "\\b" not in shown
    assert not re.search(r"^.*\bfacetd \w+ .*\bfacetd \w+ ", shown, re.MULTILINE)


@pytest.mark.parametrize("name", ["status", "mcp"])
def test_an_address_that_is_none_is_one_line(name: str) -> None:
    if name == "mcp":
        pytest.importorskip("mcp")
    result = CliRunner().invoke(main, [name, "--url", "ftp://x"])
    assert result.exit_code == 1
    assert result.stderr.startswith("facetd: ")
    assert result.stderr.count("\n") == 1


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "facetd.mcp", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = CliRunner().invoke(main, ["mcp"])
    assert result.exit_code == 1
    assert result.stderr == (
        "facetd: the Model Context Protocol needs a library that is not installed: "
        "pip install 'facetd[mcp]'\n"
    )


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("serch", "did you mean search?"),
        ("start", "did you mean serve?"),
        ("ls", "did you mean status?"),
        ("drop", "did you mean delete?"),
        ("stop", "Ctrl+C ends a service in the foreground"),
        ("xyzzy", "facetd --help lists them"),
    ],
)
def test_a_command_of_another_name_is_answered_with_ours(typed: str, hint: str) -> None:
    result = CliRunner().invoke(main, [typed])
    assert result.exit_code == 2
    assert hint in result.output


def test_help_and_version_are_commands_too() -> None:
    def shown(*arguments: str) -> str:
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result.output

    assert shown("help") == shown("--help")
    assert shown("help", "load") == shown("load", "--help")
    assert shown("help", "keys", "create") == shown("keys", "create", "--help")
    assert shown("version") == shown("-V") == shown("--version")


def test_the_man_page_names_every_command(tmp_path: Path) -> None:
    page = tmp_path / "man1" / "facetd.1"
    assert CliRunner().invoke(main, ["man", "--output", str(page)]).exit_code == 0
    text = page.read_text()
    assert text.startswith(".TH FACETD 1")
    for path, _ in _all(main):
        assert f".SS facetd {path} ".replace("-", "\\-") in text
    # The unit names this page, and says how it is installed.
    unit = (ROOT / "deploy/systemd/facetd.service").read_text()
    assert "Documentation=man:facetd(1)" in unit
    assert "facetd man --output /usr/local/share/man/man1/facetd.1" in unit
    if shutil.which("man"):
        shown = subprocess.run(
            ["man", "--warnings", "-l", str(page)], capture_output=True, text=True, check=True
        )
        assert "facetd load" in shown.stdout
        assert shown.stderr == ""


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".local/share/bash-completion/completions/facetd"),
        ("zsh", ".local/share/zsh/site-functions/_facetd"),
        ("fish", ".config/fish/completions/facetd.fish"),
    ],
)
def test_completion_is_installed_where_the_shell_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, file: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    result = CliRunner(env={"SHELL": f"/bin/{shell}"}).invoke(main, ["completion", "install"])
    assert result.exit_code == 0, result.output
    assert "_FACETD_COMPLETE" in (tmp_path / file).read_text()


def test_commands_are_completed() -> None:
    environment = {
        "_FACETD_COMPLETE": "bash_complete",
        "COMP_WORDS": "facetd sea",
        "COMP_CWORD": "1",
    }
    result = CliRunner(env=environment).invoke(main, [], prog_name="facetd")
    assert "search" in result.output


def completed(words: str, *, shell: str = "bash", **environment: str) -> list[str]:
    """Return what the Tab key offers after some words; the last may be empty."""
    asked = {
        "_FACETD_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    result = CliRunner(env={**asked, **environment}).invoke(main, [], prog_name="facetd")
    assert result.exit_code == 0, result.output
    return result.stdout.split()


def test_commands_of_a_group_are_completed() -> None:
    assert completed("facetd snapshots ") == [
        f"plain,{name}" for name in ("create", "delete", "list", "restore")
    ]
    assert completed("facetd keys cr") == ["plain,create"]
    assert "plain,search" in completed("facetd nosuch "), "no error in the middle of a line"
    assert "plain,create" in completed("facetd keys nosuch ")


def test_files_are_completed() -> None:
    for words in (
        *("load boo", "load --format csv boo", "import algolia boo", "backup boo", "restore boo"),
        *("import algolia x --settings boo", "configure films boo"),
    ):
        assert completed(f"facetd {words}") == ["file,boo"], words


def test_indexes_and_snapshots_are_completed(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 1) as service:
        url = f"http://127.0.0.1:{service.port}"
        client = Client(url)
        for name in ("films", "first", "books"):
            client.configure(name, {})
        client.request("POST", "/_aliases", b'{"aliases": {"fi-now": "books"}}')
        client.request("POST", "/_snapshots", b'{"name": "monday"}')
        for words in ("search fi", "delete fi", "alias x fi", "load a.csv --index fi"):
            offered = completed(f"facetd {words}", FACETD_URL=url)
            assert sorted(offered) == ["plain,fi-now", "plain,films", "plain,first"], words
        assert completed(f"facetd search --url {url} boo") == ["plain,books"]
        assert completed("facetd snapshots delete ", FACETD_URL=url) == ["plain,monday"]
    assert completed("facetd search fi", FACETD_URL=url) == []


def _screen(shell: str, folder: Path, *lines: str) -> str:
    """Return what a shell on a terminal shows after lines that end with Tab or Enter."""
    program, end = pty.fork()
    if program == 0:
        os.chdir(folder)
        os.environ.update(HOME=str(folder), TERM="dumb", PS1="> ")
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            os.environ.pop(name, None)
        os.execvp(shell, SHELLS[shell])
    shown = b""

    def read(until: bytes, seconds: float) -> None:
        nonlocal shown
        limit = time.monotonic() + seconds
        while until not in shown and time.monotonic() < limit:
            if select.select([end], [], [], 0.1)[0]:
                shown += os.read(end, 4096)

    for line in lines:
        os.write(end, line.encode())
        if line.endswith("\n"):
            read(b"never", 1.0)
            shown = b""
    read(b"napshots restore", 15.0)
    os.kill(program, signal.SIGKILL)
    os.waitpid(program, 0)
    os.close(end)
    return shown.decode(errors="replace")


SHELLS = {"bash": ["bash", "--norc", "-i"], "zsh": ["zsh", "-f"], "fish": ["fish", "--private"]}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_real_shell_completes(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    made = CliRunner(env={"HOME": str(tmp_path), "SHELL": shell}).invoke(
        main, ["completion", "install", shell]
    )
    script = made.stdout.partition("wrote ")[2].partition(";")[0]
    # Without this folder, fish reads all manual pages: minutes, in a process that outlives us.
    (tmp_path / ".local/share/fish/generated_completions").mkdir(parents=True)
    first = {
        "bash": f". {script}\n",
        "zsh": f"fpath=({Path(script).parent} $fpath); autoload -Uz compinit; compinit -u\n",
        "fish": "true\n",
    }[shell]
    assert "napshots restore" in _screen(shell, tmp_path, first, "facetd snapshots res\t")


def test_fish_shows_the_whole_help() -> None:
    script = CliRunner().invoke(main, ["completion", "show", "fish"]).stdout
    assert 'string split --max 1 "," $completion' in script


def test_what_the_system_refuses_is_said_in_words(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.touch()
    result = CliRunner(env={"HOME": str(home)}).invoke(main, ["completion", "install", "fish"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"facetd: {home}/.config")
    assert result.stderr.endswith(": Not a directory\n")


@pytest.mark.parametrize("group", ["keys", "snapshots", "completion", "cluster"])
def test_summaries_are_not_cut(group: str) -> None:
    shown = CliRunner().invoke(main, [group, "--help"]).stdout
    assert "..." not in shown.partition("Commands:")[2]


def test_other_words_for_a_command_are_taken() -> None:
    for words in ("snapshots remove", "snapshots rm", "keys delete"):
        assert "Missing argument" in CliRunner().invoke(main, words.split()).output
    assert "there are create, delete, list, restore" in (
        CliRunner().invoke(main, ["snapshots", "restoer"]).output
    )


def test_an_unknown_shell_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner(env={"SHELL": "/bin/csh"}).invoke(main, ["completion", "show"])
    assert result.exit_code == 1
    assert "name one of bash, zsh, fish" in result.output
