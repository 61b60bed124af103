"""The check of the hosts' items finds what is lost, invented, torn and different."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.replication.several_hosts import Hosts
from tests.replication.workload import NUM_TOGETHER, Verdict, Writer, judged

SINGLE = 1_000
NOTHING = {"lost": 0, "phantom": 0, "torn": 0, "divergent": 0}


def _writer() -> Writer:
    """Return a writer of a single item, of some together, and of two items without id."""
    writer = Writer(1, cast("Hosts", None))
    writer.acknowledged = {SINGLE: 3, **dict.fromkeys(writer.together, 5)}
    writer.unknown.update({SINGLE: {2, 4}, **{id: {6} for id in writer.together}})
    writer.anonymous = {"1-8": True, "1-12": False}
    return writer


def _items(writer: Writer, single: int | None = 3, together: int = 5) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"id": id, "version": together} for id in writer.together]
    if single is not None:
        items.append({"id": SINGLE, "version": single})
    return [*items, {"token": "1-8"}]


def _judged(*hosts: list[dict[str, Any]]) -> Verdict:
    contents = ["\n".join(map(json.dumps, items)).encode() for items in hosts]
    return judged(contents, [_writer()])


@pytest.mark.parametrize("single", [2, 3, 4])
@pytest.mark.parametrize("together", [5, 6])
def test_what_was_acknowledged_and_what_has_no_answer_may_be_there(
    single: int, together: int
) -> None:
    items = _items(_writer(), single, together)
    assert _judged(items, items, items).counts == NOTHING
    items.append({"token": "1-12"})
    assert _judged(items, items, items).counts == NOTHING


@pytest.mark.parametrize("single", [None, 1])
def test_a_missing_or_older_item_is_lost(single: int | None) -> None:
    assert _judged(_items(_writer(), single)).counts == {**NOTHING, "lost": 1}


def test_an_item_without_id_is_lost() -> None:
    assert _judged(_items(_writer())[:-1]).lost == ["1-8"]


@pytest.mark.parametrize(
    "item", [{"token": "1-8"}, {"token": "1-16"}, {"id": 7, "version": 1}, {"id": 1, "version": 9}]
)
def test_an_item_that_no_client_sent_or_that_is_there_twice_is_a_phantom(
    item: dict[str, Any],
) -> None:
    assert _judged([*_items(_writer()), item]).counts == {**NOTHING, "phantom": 1}


def test_a_version_that_no_client_sent_is_a_phantom() -> None:
    assert _judged(_items(_writer(), single=7)).counts == {**NOTHING, "phantom": 1}


def test_items_that_were_written_together_have_one_version() -> None:
    items = _items(_writer())
    items[NUM_TOGETHER - 1]["version"] = 6
    assert _judged(items).counts == {**NOTHING, "torn": 1}


def test_hosts_that_differ_are_found() -> None:
    items = _items(_writer())
    assert _judged(items, items, items[:-1]).counts == {**NOTHING, "divergent": 1}
    assert _judged(items, items[::-1]).divergent == ["the order of the items"]
