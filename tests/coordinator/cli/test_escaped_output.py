"""No output of a command lets the data of others control the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.command_line_client import Client
from tests.coordinator.cli.loads import run
from tests.service import Service

EVIL = "\x1b]0;owned\x07\x9b2J\u202egnp\x7f\r"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module", autouse=True)
def evil(service: Service) -> Iterator[None]:
    client = Client(f"http://127.0.0.1:{service.port}")
    client.configure("evil", {"aggregations": {f"f{EVIL}": {"title": f"T{EVIL}"}, "tag": {}}})
    items = [{"id": f"i{EVIL}", "title": f"sea {EVIL}", "tag": EVIL, f"f{EVIL}": [EVIL], "n": 1}]
    client.request("POST", "/evil/items", json.dumps(items, ensure_ascii=False).encode())
    yield
    client.request("DELETE", "/evil")


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "evil"),
        ("search", "evil", "sea"),
        ("search", "evil", f"sea nothing{EVIL}"),
        ("search", "evil", "--json"),
        ("search", "evil", "--filter", f"{EVIL} ="),
        ("search", "evil", "--sort", f"x{EVIL}"),
        ("search", f"none{EVIL}"),
        ("search", "evil", "--page", f"1{EVIL}"),
        ("search", "evil", f"--{EVIL}"),
        (f"search{EVIL}",),
        (f"--{EVIL}",),
        ("keys", f"lost{EVIL}"),
        ("status",),
        ("status", "--json"),
        ("configure", "evil"),
        ("configure", "evil", "--set", f"aggregations.x{EVIL}={{}}", "--preview"),
        ("configure", "evil", f"missing{EVIL}.json"),
        ("analytics", "evil"),
        ("alias", f"a{EVIL}", f"b{EVIL}"),
        ("snapshots", "restore", f"none{EVIL}"),
        ("load", f"missing{EVIL}.csv"),
        ("load", "-", "--index", f"bad{EVIL}"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]).encode("unicode_escape").decode(),
)
def test_printed_data_do_not_control_the_terminal(
    service: Service, arguments: tuple[str, ...]
) -> None:
    result = run(service, *arguments, text="[1]")
    assert result.output
    assert CONTROLS.findall(result.output) == []


FILES = {
    "csv": f"id,name{EVIL[:-1]},n\n1,x{EVIL[:-1]},1\n2,b,2\n",
    "short rows": f"id,name\n1\n2,x{EVIL[:-1]},y\n",
    "ndjson": json.dumps({"id": 1, EVIL: [EVIL], "tag": EVIL}) + "\n",
    "bad ids": json.dumps({"id": {EVIL: EVIL}}) + "\n",
    "bad line": f'{{"id": 1, "a": "{EVIL}"}}\n',
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("options", [("--dry-run",), ("--configure", "auto"), ("--skip-bad",)])
def test_loads_do_not_control_the_terminal(
    service: Service, client: Client, tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    file = tmp_path / f"file{EVIL[:-1]}.{'csv' if kind in ('csv', 'short rows') else 'ndjson'}"
    file.write_text(FILES[kind])
    result = run(service, "load", str(file), "--index", "evil-load", *options)
    assert CONTROLS.findall(result.output) == []
    if client.request("GET", "/_indexes")["indexes"][-1]["name"] == "evil-load":
        client.request("DELETE", "/evil-load")


def test_answers_as_json_keep_their_content(service: Service) -> None:
    (item,) = json.loads(run(service, "search", "evil", "--json").output)["data"]["items"]
    assert item["title"] == f"sea {EVIL}"


def test_an_export_is_exact_and_safe_on_a_terminal(service: Service, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{service.port}"
    command = [sys.executable, "-m", "coordinator", "export", "evil", "--url", url]
    exported = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    assert "\u202egnp\x7f".encode() in exported  # which JSON need not escape

    shown = on_a_terminal(command)
    assert CONTROLS.findall(shown.replace("\r\n", "\n")) == []
    assert json.loads(shown) == json.loads(exported)


def on_a_terminal(command: list[str]) -> str:
    """Return what a command prints on a terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # the terminal is closed
            pass
        assert process.wait(60) == 0
    os.close(ours)
    return shown.decode()


def test_commands_print_by_one_function() -> None:
    folder = Path(cli.__file__).parent
    others = {
        path.name
        for path in folder.rglob("*.py")
        if re.search(r"click\.s?echo\(|(?<![\w.])print\(", path.read_text())
    }
    assert others == {"escaped_output.py"}
