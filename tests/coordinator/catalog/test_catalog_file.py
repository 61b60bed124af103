"""Changes of the catalog are lines of its file: each is there whole or not at all."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common import data_directory
from common.data_directory import DataDirectoryError, catalog_path, manifest_path
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_difference import StateChange
from coordinator.catalog.catalog_file import LINES_BYTES_MIN, CatalogFile, read_state, whole
from coordinator.catalog.catalog_state import CATALOG_FORMAT, CatalogState, StoredIndex
from tests.faults.page_cache import PageCache

SECTOR = 512


def _with(state: CatalogState, name: str, size: int = 0) -> CatalogState:
    return state.with_index(state.new_entry(name, {"note": "ü" * size} if size else {}))


def _made(path: Path, num_changes: int, size: int = 0) -> list[CatalogState]:
    """Make a file of a state and changes; returns the states, the first one before any change."""
    file = CatalogFile(path)
    states = [_with(CatalogState(), "first")]
    file.replace(states[0])
    for number in range(num_changes):
        states.append(_with(states[-1], f"index{number}", size))
        file.store(states[-2], states[-1])
    return states


def test_a_file_that_cannot_be_opened_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a free descriptor: the coordinator need not end for that."""
    path = tmp_path / "catalog.json"
    state = _made(path, 1)[-1]
    file = CatalogFile(path)
    file.open()
    changed = _with(state, "another")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(OSError, match="Too many open files"):
            file.store(state, changed)
    assert read_state(path) == state
    file.store(state, changed)
    assert read_state(path) == changed


def test_a_change_appends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "catalog.json"
    states = _made(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[0] == whole(states[0])
    assert [json.loads(line)["change"]["base"] for line in lines[1:]] == [1, 2, 3]
    assert CatalogFile(path).open() == states[-1]


@pytest.mark.parametrize("size", [0, 5_000])
def test_a_line_that_a_failed_sync_left_in_memory_is_on_disk_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Killed before it was synced; the sync of the next start fails."""
    path = tmp_path / "catalog.json"
    state = _made(path, 2, size)[-1]
    content = path.read_bytes()
    disk = content[: content.rindex(b"\n", 0, -1) + 1]

    with monkeypatch.context() as patch:
        pages = PageCache(path, disk, patch)
        pages.fails = True
        with pytest.raises(OSError, match="Input/output error"):
            CatalogFile(path).open()
        pages.fails = False
        assert CatalogFile(path).open() == state
        pages.fail_power()

    assert read_state(path) == state


@pytest.mark.parametrize("size", [0, 700])
def test_a_line_that_is_there_in_part_is_ignored_and_then_replaced(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "catalog.json"
    former, state = _made(path, 3, size)[-2:]
    content = path.read_bytes()
    begin = content.rindex(b"\n", 0, -1) + 1
    ends = {*range(begin, len(content), 97), begin + 1, len(content) - 2, len(content) - 1}
    cut = [content[:end] for end in sorted(ends)]
    # Sectors that were not written, in a file that has got its new size.
    sectors = range(begin // SECTOR, len(content) // SECTOR + 1)
    for mask in range(1, 1 << len(sectors)):
        torn = bytearray(content)
        for bit, sector in enumerate(sectors):
            if mask >> bit & 1:
                start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(content))
                torn[max(begin, start) : end] = bytes(end - max(begin, start))
        cut.append(bytes(torn))
    for left in cut:
        path.write_bytes(left)
        file = CatalogFile(path)
        found = file.open()
        assert found in (former, state)
        following = _with(found, "following")
        file.store(found, following)
        assert CatalogFile(path).open() == following


def test_a_damaged_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.json"
    states = _made(path, 3)
    content = path.read_bytes()
    for position in range(len(content)):
        for bit in (0x01, 0x20, 0x80):
            damaged = bytearray(content)
            damaged[position] ^= bit
            path.write_bytes(damaged)
            try:
                assert read_state(path) == states[-1]
            except DataDirectoryError as error:
                assert "damaged" in str(error)  # noqa: PT017


def test_lines_that_are_missing_or_there_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.json"
    _made(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in ([0, 2, 3], [0, 1, 1, 2, 3], [0, 2, 1, 3]):
        path.write_bytes(b"".join(lines[number] for number in wrong))
        with pytest.raises(DataDirectoryError, match="follows revision"):
            read_state(path)


def test_the_file_stays_in_proportion_to_its_content(tmp_path: Path) -> None:
    """A thousand changes of one index must not be read by every start."""
    path = tmp_path / "catalog.json"
    states = _made(path, 50, size=100)
    file = CatalogFile(path)
    assert file.open() == states[-1]
    state = states[-1]
    sizes = []
    for revision in range(1_000):
        former, state = state, state.with_index(state.new_entry("first", {"note": f"{revision}"}))
        file.store(former, state)
        sizes.append(path.stat().st_size)
    assert max(sizes) <= 2 * len(whole(state)) + LINES_BYTES_MIN
    assert sum(later < size for size, later in itertools.pairwise(sizes)) < 5
    assert read_state(path) == state


def test_a_state_that_no_line_leads_to_is_stored_whole(tmp_path: Path) -> None:
    path = tmp_path / "catalog.json"
    state = _made(path, 3)[-1].with_section("keys", {"k": 1})
    reordered = CatalogState(
        revision=9, next_number=state.next_number, indexes=state.indexes[::-1], sections={}
    )
    assert StateChange.between(state, reordered) is None
    file = CatalogFile(path)
    file.store(file.open(), reordered)
    assert path.read_bytes() == whole(reordered)


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_STATES = st.builds(
    CatalogState,
    revision=st.integers(0, 3),
    next_number=st.integers(1, 9),
    indexes=st.dictionaries(st.integers(1, 5), _NAMES, max_size=5).map(
        lambda names: tuple(StoredIndex(n, name, n, {}) for n, name in names.items())
    ),
    aliases=st.dictionaries(_NAMES, _NAMES),
    sections=st.dictionaries(_NAMES, st.dictionaries(_NAMES, st.integers(0, 1))),
)


@settings(max_examples=300)
@given(_STATES, _STATES)
def test_a_change_leads_from_any_state_to_another_or_there_is_none(
    former: CatalogState, state: CatalogState
) -> None:
    change = StateChange.between(former, state)
    if change is not None:
        assert change.applied(former) == state
    else:
        assert former.sections.keys() - state.sections.keys() or [
            one.number for one in former.indexes
        ] != [one.number for one in state.indexes]


def test_a_state_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.json"
    newer = msgspec.structs.replace(_with(CatalogState(), "films"), format=CATALOG_FORMAT + 1)
    path.write_bytes(whole(newer))

    with pytest.raises(DataDirectoryError, match="install a newer version"):
        read_state(path)


async def test_a_file_of_the_former_version_is_taken_over(tmp_path: Path) -> None:
    """Format 2 of the directory: one state, and no lines of changes."""
    Catalog.open(tmp_path, 2)
    state = _with(CatalogState(), "films").with_aliases({"movies": "films"})
    catalog_path(tmp_path).write_bytes(whole(state))
    manifest = json.loads(manifest_path(tmp_path).read_bytes())
    manifest_path(tmp_path).write_text(json.dumps(manifest | {"format": 2, "min_reader": 2}))

    catalog = Catalog.open(tmp_path, 2)
    assert catalog.state == state
    # Before a line is written, older programs must know that they cannot read it.
    upgraded: dict[str, Any] = json.loads(manifest_path(tmp_path).read_bytes())
    assert upgraded["min_reader"] == data_directory.MIN_READER == 3
    await catalog.change(lambda now: _with(now, "books"))
    assert Catalog.open(tmp_path, 2).state == catalog.state
