"""Log lines: their form, their levels, and values that try to forge one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from common.process import logs
from common.process.logs import Log


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("facetd")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = before


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_line_names_time_level_process_event_and_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("shard-1")
    Log("x").info("shard started", shard=1, path="/a b")
    (line,) = _lines(capsys)
    assert line.split(" ", 1)[1] == 'info shard-1 "shard started" shard=1 path="/a b"'
    assert line[:2] == "20"
    assert line.split(" ")[0].endswith("Z")


@pytest.mark.parametrize("evil", ["a\nb", 'x" level=error', "\r", "\u2028", "\x1b[31m"])
def test_no_value_can_forge_a_line(capsys: pytest.CaptureFixture[str], evil: str) -> None:
    logs.configure("coordinator")
    Log("x").warning("configured", index=evil)
    (line,) = _lines(capsys)
    assert json.loads(line.partition("index=")[2]) == evil


def test_json_lines_have_the_same_parts(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("coordinator", style="json")
    try:
        raise ValueError("why")
    except ValueError as error:
        Log("x").error("failed", cause=error, index="films")
    (line,) = _lines(capsys)
    record = json.loads(line)
    assert (record["level"], record["event"], record["index"]) == ("error", "failed", "films")
    assert "ValueError: why" in record["traceback"]


def test_what_is_below_the_level_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("coordinator", level="warning")
    Log("x").info("nothing")
    logging.getLogger("library").info("nothing")
    logging.getLogger("library").warning("something")
    assert [line.split(" ", 3)[3] for line in _lines(capsys)] == ['"something"']


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        logs.configure("x", level="loud")
