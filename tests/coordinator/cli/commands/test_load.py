"""`facetd load` as a newcomer uses it: tables, refusals, the proposal, and the bar."""

from __future__ import annotations

import json
import os
import pty
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from coordinator.cli.commands import indexes, main
from coordinator.cli.loading import bulk_updates, proposed_configuration
from coordinator.command_line_client import Client, ClientError
from tests.coordinator.cli.loads import BOOKS, index_names, run
from tests.service import ROOT, Service


def test_an_update_keeps_the_fields_that_the_file_lacks(service: Service, client: Client) -> None:
    assert run(service, "load", "-", "--index", "updated", text=BOOKS).exit_code == 0
    prices = "id,price,genre\n3,9.5,\n4,7,c\n"
    result = run(service, "load", "-", "--index", "updated", "--update", text=prices)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["updated"] == 2
    assert client.request("GET", "/updated")["items"] == 20
    assert client.request("GET", "/updated/items/3") == {
        "id": 3, "title": "Book 3", "genre": "b", "price": 9.5
    }  # fmt: skip
    assert client.request("GET", "/updated/items/4")["genre"] == "c"

    pretty = '[{"id": 5, "pages": 123456789012345678},\n {"id": 99, "pages": 1}]\n'
    result = run(service, "load", "-", "--index", "updated", "--update", text=pretty)
    assert result.exit_code == 1
    assert "updated has no item for 1 id of" in result.output
    assert client.request("GET", "/updated/items/5")["pages"] == 123456789012345678
    skipping = ("load", "-", "--index", "updated", "--update", "--skip-bad")
    assert run(service, *skipping, text=pretty).exit_code == 0
    assert client.request("GET", "/updated")["items"] == 20


def test_stdin_is_loaded_once(service: Service, client: Client) -> None:
    result = run(service, "load", "-", "-", "--index", "twice", text=BOOKS)
    assert result.exit_code == 2
    assert "- is stdin, which can be read once" in result.output
    assert "twice" not in index_names(client)


def test_an_update_is_sent_in_parts(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(service, "load", "-", "--index", "parts-of", text=BOOKS).exit_code == 0
    monkeypatch.setattr(bulk_updates, "BATCH_ITEMS", 3)
    lines = "".join(f'{{"id": {n}, "n": {n}}}\n' for n in range(1, 8))
    result = run(service, "load", "-", "--index", "parts-of", "--update", text=lines)
    assert json.loads(result.stdout)["updated"] == 7
    for bad, told in (
        ('{"n": 1}', "stdin, line 8: an item to change needs its id (400 invalid_id)"),
        ('{"n": 1', "line 8: "),
    ):
        result = run(
            service, "load", "-", "--index", "parts-of", "--update", text=f"{lines}{bad}\n"
        )
        assert result.exit_code == 1
        assert told in result.output
        assert "6 items before were updated" in result.output


def test_an_update_leaves_out_what_the_service_refuses(
    service: Service, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --skip-bad; each item is named by its place in the file, not in a request."""
    assert run(service, "load", "-", "--index", "partly", text=BOOKS).exit_code == 0
    monkeypatch.setattr(bulk_updates, "BATCH_ITEMS", 4)
    file = tmp_path / "stock.csv"
    rows = ((257 * "9" if id in (5, 7, 8, 9) else id, id) for id in range(1, 10))
    file.write_text("id,stock\n" + "".join(f"{id},{stock}\n" for id, stock in rows))
    update = ("load", str(file), "--index", "partly", "--update")

    result = run(service, *update)
    assert result.exit_code == 1
    message = "line 6: an id must be an integer from 0 to 2^63-1 or a text of 1 to 256 bytes"
    assert f"{file}, {message} (and 2 more) (400 invalid_id); 4 items before were" in result.stderr
    assert "nothing was stored" not in result.output

    result = run(service, *update, "--skip-bad")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert (shown["updated"], shown["rejected"]) == (5, 4)
    assert [one["place"] for one in shown["errors"]] == [f"{file}, line {n}" for n in (6, 8, 9, 10)]
    assert client.request("GET", "/partly/items/6")["stock"] == 6


def test_an_update_makes_no_index(service: Service, client: Client) -> None:
    result = run(service, "load", "-", "--index", "none-yet", "--update", text=BOOKS)
    assert result.exit_code == 1
    assert "there is no index 'none-yet'" in result.output
    assert "none-yet" not in index_names(client)


def test_several_files_are_loaded_in_turn(service: Service, client: Client, tmp_path: Path) -> None:
    parts = [tmp_path / f"part-{i}.ndjson" for i in range(3)]
    for i, part in enumerate(parts):
        part.write_text(f'{{"id": {i}, "shelf": "a"}}')
    configuration = tmp_path / "configuration.json"
    configuration.write_text('{"aggregations": {"shelf": {}}}')
    into = ("--index", "parts", "--config", str(configuration))
    result = run(service, "load", *map(str, parts), *into)
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["created"] for line in result.stdout.splitlines()] == [1, 1, 1]
    assert client.request("GET", "/parts")["items"] == 3
    assert "shelf" in client.request("GET", "/parts/configuration")["aggregations"]

    parts[1].write_text("{")
    result = run(service, "load", *map(str, parts))
    assert result.exit_code == 1
    assert f"facetd: loaded before this: {parts[0]}\n" in result.stderr
    assert [name for name in index_names(client) if name.startswith("part-")] == ["part-0"]


def test_a_table_becomes_an_index_of_its_name(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "My books (new).csv"
    file.write_text(BOOKS)
    result = run(service, "load", str(file))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["created"] == 20
    assert "20 rows, 3 columns" in result.stderr
    assert "integer, the id" in result.stderr
    assert "facet   genre  (2 values" in result.stderr
    assert "--configure auto" in result.stderr
    assert client.request("GET", "/my-books-new/items/3") == {
        "id": 3, "title": "Book 3", "genre": "b",
    }  # fmt: skip
    assert client.request("GET", "/my-books-new/configuration") == {}, (
        "the question was not answered"
    )


def test_the_proposal_is_applied_by_option_and_by_a_key(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "auto.csv"
    file.write_text(BOOKS)
    assert run(service, "load", str(file), "--configure", "auto").exit_code == 0
    applied = client.request("GET", "/auto/configuration")
    assert list(applied["aggregations"]) == ["genre"]
    assert applied["searchable_fields"][0] == "title^3"
    assert run(service, "load", str(file), "--index", "kept", "--configure", "none").exit_code == 0
    keys = iter("n\r")
    for expected in (dict[str, Any](), applied):
        proposed_configuration.offer_configuration(
            client, "kept", "ask", read_key=lambda: next(keys)
        )
        assert client.request("GET", "/kept/configuration") == expected


def test_an_index_that_exists_keeps_its_configuration(
    service: Service, client: Client, tmp_path: Path
) -> None:
    client.configure("mine", {"match": "any"})
    file = tmp_path / "mine.csv"
    file.write_text(BOOKS)
    assert "proposed" not in run(service, "load", str(file), "--configure", "auto").stderr
    assert client.request("GET", "/mine/configuration") == {"match": "any"}


@pytest.mark.parametrize(
    ("name", "content", "messages"),
    [
        ("rows.csv", "id,a\n1,2\n2\n", ["line 3: 1 cell, and the header has 2", "--skip-bad"]),
        ("ids.ndjson", '{"id":1}\n{"id":-1}\n', ["line 2, byte 7: an id must be"]),
        ("text.json", "id,a\n1,2\n", ["line 1, byte 1", "facetd load also reads CSV"]),
        ("none.csv", "", ["is empty; its first line must name the columns"]),
    ],
)
def test_a_refused_load_leaves_no_index_and_is_told_once(
    service: Service, client: Client, tmp_path: Path, name: str, content: str, messages: list[str]
) -> None:
    file = tmp_path / name
    file.write_text(content)
    before = index_names(client)
    result = run(service, "load", str(file), "--index", "refused")
    assert result.exit_code == 1
    assert result.stdout == ""
    for message in messages:
        assert result.stderr.count(message) == 1, result.stderr
    assert index_names(client) == before


def test_a_refusal_of_the_service_names_the_line_of_the_table(
    service: Service, client: Client, tmp_path: Path
) -> None:
    long = "x" * 300
    file = tmp_path / "long.csv"
    file.write_text(f'id,a\n1,"two\nlines"\n{long},2\n')
    result = run(service, "load", str(file))
    assert result.exit_code == 1
    assert "line 4: an id must be" in result.stderr
    skipped = run(service, "load", str(file), "--skip-bad")
    answer = json.loads(skipped.stdout)
    assert (answer["created"], answer["rejected"]) == (1, 1)
    assert answer["errors"][0]["place"] == "line 4"


def test_bad_rows_are_left_out_on_request_and_counted(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "some.csv"
    file.write_text("id,a\n1,2\n2\n3,4\n")
    result = run(service, "load", str(file), "--skip-bad")
    answer = json.loads(result.stdout)
    assert (answer["created"], answer["rejected"]) == (2, 1)
    assert "line 3" in result.stderr


def test_a_dry_run_needs_no_service(tmp_path: Path) -> None:
    file = tmp_path / "books.csv"
    file.write_text(BOOKS)
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])
    assert result.exit_code == 0
    assert "20 rows, 3 columns" in result.stderr


@pytest.mark.parametrize(
    ("content", "said", "bad"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', "2 items", []),
        ('[{"a": 1}, {"a": 2}]', "2 items", []),
        ("", "0 items", []),
        (
            '{"a": 1}\n{"a": \n7\n',
            None,
            ["line 2, byte 7: a value must", "line 3, byte 1: an item mu"],
        ),
        ('[{"a": 1}, 7, null]', None, ["item 1, byte 12: an item must be an object"]),
        ('[{"a": 1}, ', None, ["item 1, byte 12: it ends in the middle of a value"]),
        ('[{"id": -1}]', None, ["an id must be an integer from 0 to 2^63-1 or a text"]),
    ],
)
def test_a_dry_run_reads_json_to_its_end(
    tmp_path: Path, content: str, said: str | None, bad: list[str]
) -> None:
    file = tmp_path / "books.json"
    file.write_text(content)
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])
    assert result.exit_code == (1 if bad else 0), result.output
    for text in (*bad, *([said] if said else [])):
        assert text in result.stderr
    if not bad:
        return
    skipping = ["load", str(file), "--dry-run", "--skip-bad"]
    assert CliRunner().invoke(main, skipping).exit_code == 0


@pytest.mark.parametrize("content", ['[{"a": "é"}]', '{"a": "x"}\n{"a": "é"}\n'])
def test_json_of_another_encoding_is_told_what_helps(
    service: Service, client: Client, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "latin.json"
    file.write_bytes(content.encode("cp1252"))
    for options in ([], ["--dry-run"]):
        result = run(service, "load", str(file), *options)
        assert result.exit_code == 1
        assert "--encoding cp1252 (or another) reads text that is not UTF-8\n" in result.stderr
    result = run(service, "load", str(file), "--encoding", "cp1252")
    assert result.exit_code == 0, result.output
    client.request("DELETE", "/latin")


def test_a_dry_run_names_rows_that_the_service_would_refuse(tmp_path: Path) -> None:
    file = tmp_path / "books.csv"
    file.write_text(f"id,title\n1,Sea\n{'x' * 257},Land\n")
    result = CliRunner().invoke(main, ["load", str(file), "--dry-run", "--port", "1"])
    assert result.exit_code == 1
    assert "line 3: an id must be an integer from 0" in result.stderr


def test_a_table_without_a_header_is_loaded_by_its_columns_names(
    service: Service, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "queries.tsv"
    file.write_text('7\t"Alien" again\n8\tDune\n')
    dry = run(service, "load", str(file), "--dry-run", "--no-quotes")
    assert 'if the first line (7, "Alien" again) does not name the columns' in dry.stderr
    result = run(service, "load", str(file), "--columns", "id,text", "--no-quotes")
    assert json.loads(result.stdout)["created"] == 2, result.output
    assert client.request("GET", "/queries/items/7") == {"id": 7, "text": '"Alien" again'}
    assert "does not name" not in result.stderr
    client.request("DELETE", "/queries")


def test_rows_of_a_query_become_items(service: Service, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE product (id INTEGER, name TEXT)")
    connection.executemany("INSERT INTO product VALUES (?, ?)", [(i, f"n{i}") for i in range(50)])
    connection.commit()
    connection.close()
    query = "SELECT name AS sku, id AS n FROM product WHERE id < 7"
    arguments = ("--index", "shop", "--query", query, "--id-field", "sku")
    assert json.loads(run(service, "load", str(path), *arguments).stdout)["created"] == 7
    assert client.request("GET", "/shop/items/n3") == {"sku": "n3", "n": 3, "id": "n3"}


@pytest.mark.parametrize(("status", "expected"), [(404, False), (403, True), (503, None)])
def test_an_index_is_there_unless_the_service_says_it_is_not(
    monkeypatch: pytest.MonkeyPatch, status: int, expected: bool | None
) -> None:
    """A key that may only write may load into an index that is there."""
    client = Client("http://127.0.0.1:1")

    def refuse(*_: object) -> Any:
        raise ClientError("no", status=status)

    monkeypatch.setattr(client, "request", refuse)
    if expected is None:
        with pytest.raises(ClientError):
            indexes.exists(client, "films")
    else:
        assert indexes.exists(client, "films") is expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "name the --index to load into"),
        (["postgres://localhost/shop"], "say which rows to load: --table NAME"),
        (["postgres://localhost/shop", "--query", "SELECT 1"], "name the --index to load into"),
        (["http://[::1/x.csv"], "is not an address"),
        (["x.csv", "--type", "a"], "'a' is not FIELD=KIND"),
        (["x.csv", "--delimiter", "ab"], "one character"),
        (["x.csv", "--columns", "a,,b"], "must name each column, once, for example id,title"),
        (["x.csv", "--columns", "a,a"], "must name each column, once"),
        (["x.csv", "--format", "xls"], "'csv', 'tsv'"),
        (["x.csv", "--port", "x"], "port must be an integer"),
    ],
)
def test_wrong_use_is_told_with_status_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["load", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_the_bar_is_over_what_is_durable(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While items are sent nothing is stored, and the bar is empty."""
    seen: list[dict[str, Any]] = []

    def pieces() -> Iterator[bytes]:
        for start in range(0, 400, 100):
            yield b"".join(b'{"id":%d}\n' % i for i in range(start, start + 100)) + b" " * 2**20
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                loads = client.request("GET", "/_loads")["loads"]
                if loads and loads[0]["items_read"] >= start:
                    seen.extend(loads)
                    break

    client.configure("bar", {})
    client.load("bar", pieces(), request_id="load-x")
    assert {one["id"] for one in seen} == {"load-x"}
    assert all(one["state"] == "receiving" and one["items_stored"] == 0 for one in seen)
    received = [one["bytes_received"] for one in seen]
    assert received == sorted(received)
    assert client.request("GET", "/_loads") == {"loads": []}


def test_on_a_terminal_one_key_configures(service: Service, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "terminal.csv"
    file.write_text(BOOKS)
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "coordinator", "load", str(file)),
            *("--url", f"http://127.0.0.1:{service.port}"),
        ],
        cwd=ROOT,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        close_fds=True,
    )
    os.close(other_end)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([main_end], [], [], 0.5)
        if not ready:
            if b"[Y/n]" in shown:  # what is typed before the terminal is raw is thrown away
                os.write(main_end, b"y")
            continue
        try:
            piece = os.read(main_end, 65_536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(main_end)
    try:
        assert process.wait(30) == 0, shown
    finally:
        process.kill()
        process.wait()
    text = click.unstyle(shown.decode())
    assert "terminal: 20 created" in text
    assert "20/20" in text
    assert "stored" in text
    assert "genre" in client.request("GET", "/terminal/configuration")["aggregations"]
