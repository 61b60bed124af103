"""An idle index has the text columns that searches are likely to need before one needs them."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.partition.derived_files import DerivedFiles
from shard.partition.merge_and_flush import work
from shard.segment.columns import (
    text_ordinal_columns,
    text_ordinal_files,
    text_ordinal_merge,
    text_ordinal_preparation,
)
from shard.segment.columns.text_ordinal_columns import needs_documents, text_column
from shard.segment.snapshot import SegmentView, Snapshot
from tests.shard.partition.local_shard import Shard, damage_item, index_entry, reconfigure


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_ordinal_files, "FILE_DOCS_MIN", 50)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return how many documents and fields each pass over the stored items read."""
    found: list[tuple[int, int]] = []
    extract = text_ordinal_columns.extract_texts

    def note(snapshot: Snapshot, view: SegmentView, fields: Sequence[int], *more: Any) -> Any:
        found.append((view.num_docs, len(fields)))
        return extract(snapshot, view, fields, *more)

    for module in (text_ordinal_columns, text_ordinal_merge):
        monkeypatch.setattr(module, "extract_texts", note)
    monkeypatch.setattr(text_ordinal_preparation, "extract_texts", note)
    return found


def _items(start: int, end: int) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "updated": f"2026-01-{i % 28 + 1:02}T{i % 24:02}:{i * 7 % 60:02}:00Z",
            "material": f"material {i % 7}",
            "name": f"name {i}",
            "brand": f"brand {i % 5}",
            "variants": [{"size": "SML"[i % 3], "code": f"code {i}"}, {"size": "XL"}],
        }
        | ({"note": "a note"} if i % 10 == 0 else {})
        for i in range(start, end)
    ]


def _prepared(shard: Shard) -> set[str]:
    """Return the fields of which every segment has a column in a file."""
    snapshot = shard.partition.newest
    paths = snapshot.registry.paths
    found = [{paths[field] for field in view.segment.text_files} for view in snapshot.views]
    return set.intersection(*found)


def _merge_without_idleness(shard: Shard) -> None:
    shard.writer.retire_open_segment()
    while work(shard.partition, is_idle=False):
        pass


def _check_columns(shard: Shard) -> None:
    """Check the columns in files against the stored items."""
    snapshot = shard.partition.newest
    for view in snapshot.views:
        for field in view.segment.text_files:
            found = text_column(snapshot, view, field)
            expected = text_ordinal_columns._extract_texts(snapshot, view, field)
            assert found is not None
            for doc in set(range(view.segment.num_docs)) - set(view.deleted or ()):
                assert _texts_of(found, doc) == _texts_of(expected, doc)


def _texts_of(texts: text_ordinal_columns.TextColumn, doc: int) -> list[bytes]:
    docs, numbers = text_ordinal_merge.pairs_of(texts.column)
    return sorted(texts.keys(numbers[docs == doc].tolist()))


def test_dates_and_repeated_texts_have_a_column_before_any_search(
    tmp_path: Path, passes: list[tuple[int, int]]
) -> None:
    shard = Shard(tmp_path / "index", index_entry(aggregations={"brand": {}}))
    shard.put(*_items(0, 100))
    shard.apply((Operation.DELETE, "3"), (Operation.DELETE, "20"))
    _merge_without_idleness(shard)
    assert not _prepared(shard), "while items are written, that is left for later"

    shard.merge()

    assert _prepared(shard) == {"updated", "material", "variants.size", "note"}
    assert passes == [(98, 4)], "all fields in one pass over the stored items"
    passes.clear()
    snapshot = shard.partition.newest
    (view,) = snapshot.views
    for path in ("updated", "material", "variants.size", "note"):
        field = snapshot.registry.number(path)
        assert field is not None
        assert not needs_documents(snapshot, view, field)
        assert text_column(snapshot, view, field) is not None
    assert not passes
    _check_columns(shard)

    shard.close()
    shard.open()
    assert _prepared(shard) == {"updated", "material", "variants.size", "note"}
    passes.clear()
    shard.merge()
    assert not passes
    assert shard.partition.is_at_rest
    shard.close()


def test_fields_to_sort_by_have_one_also_if_they_are_named_later(
    tmp_path: Path, passes: list[tuple[int, int]]
) -> None:
    shard = Shard(tmp_path / "index", index_entry())
    shard.put(*_items(0, 100))
    shard.merge()
    assert "name" not in _prepared(shard)
    passes.clear()

    reconfigure(shard, 2, sorting_fields=["name", "id", "no such field"])
    assert not shard.partition.is_at_rest
    shard.merge()

    assert "name" in _prepared(shard)
    assert passes == [(100, 1)]
    assert shard.partition.is_at_rest
    _check_columns(shard)
    shard.close()


def test_a_merge_carries_them_with_one_pass_over_the_new_items(
    shard: Shard, passes: list[tuple[int, int]]
) -> None:
    shard.put(*_items(0, 100))
    shard.merge()
    before = _prepared(shard)
    passes.clear()
    shard.put(*_items(90, 130))
    shard.merge()

    assert len(shard.partition.newest.views) == 1
    assert _prepared(shard) == before
    assert passes == [(40, 5)]
    _check_columns(shard)


def test_the_pass_is_given_up_when_something_waits_for_the_merger(shard: Shard) -> None:
    shard.put(*_items(0, 100))
    _merge_without_idleness(shard)

    assert not work(shard.partition, is_idle=True, is_wanted=lambda: False)

    assert not _prepared(shard)
    assert not shard.partition.is_at_rest
    shard.merge()
    assert _prepared(shard)


def test_fields_are_read_in_several_passes_where_memory_permits_no_more(
    shard: Shard, passes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_ordinal_preparation, "_PASS_BYTES", 1)
    monkeypatch.setattr(text_ordinal_preparation, "_FIELDS_MAX", 3)
    shard.put(*_items(0, 100))
    shard.merge()

    assert passes == [(100, 1)] * 3
    assert len(_prepared(shard)) == 3, "the most common ones"
    assert "note" not in _prepared(shard)
    _check_columns(shard)


@pytest.mark.parametrize("what", ["room", "write", "item"])
def test_where_they_cannot_be_made_nothing_else_waits(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    shard.put(*_items(0, 100))
    _merge_without_idleness(shard)

    def refuse(*_: object) -> Any:
        raise OSError(errno.ENOSPC, "refused")

    if what == "item":
        damage_item(shard, 7)
    elif what == "room":
        monkeypatch.setattr(ShardSettings, "leave_room", lambda *_: False)
    else:
        monkeypatch.setattr(DerivedFiles, "write_texts", refuse)

    assert not work(shard.partition, is_idle=True)

    assert not _prepared(shard)
    assert shard.partition.is_at_rest, "it is not tried again and again"


@pytest.mark.parametrize("named", [[], ["name"]])
def test_a_segment_whose_items_are_all_deleted_needs_none(tmp_path: Path, named: list[str]) -> None:
    """A cursor still names them, so no merge drops them; the merger failed every ten seconds."""
    shard = Shard(tmp_path / "index", index_entry(sorting_fields=named))
    shard.put(*_items(0, 100))
    _merge_without_idleness(shard)
    shard.held = shard.seq
    shard.apply(*[(Operation.DELETE, str(i)) for i in range(100)])

    shard.merge()

    (view,) = shard.partition.newest.views
    assert (view.num_docs, view.segment.num_docs) == (0, 100)
    assert shard.partition.is_prepared
    shard.close()


def test_small_segments_have_none(shard: Shard, passes: list[tuple[int, int]]) -> None:
    shard.put(*_items(0, 49))
    shard.merge()
    assert not _prepared(shard)
    assert not passes
