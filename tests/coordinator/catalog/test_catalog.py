"""The catalog on disk: changes that survive, fail, are cancelled or damaged."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common import durable_files
from common.data_directory import DataDirectoryError, catalog_path, manifest_path
from common.errors import InternalError, NotFound, StorageFull
from coordinator.catalog import catalog as catalog_module
from coordinator.catalog import catalog_file
from coordinator.catalog.catalog import Catalog
from coordinator.catalog.catalog_difference import StateChange, difference
from coordinator.catalog.catalog_file import CatalogInDoubt, holds_data, read_state
from coordinator.catalog.catalog_state import CatalogState, StoredIndex


def _with_index(
    state: CatalogState, name: str, document: dict[str, Any] | None = None
) -> CatalogState:
    return state.with_index(state.new_entry(name, document or {}))


async def test_what_was_changed_is_there_after_opening_again(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, 2)
    await catalog.change(lambda state: _with_index(state, "films", {"language": "english"}))
    await catalog.change(lambda state: state.with_aliases({"movies": "films"}))
    await catalog.change(lambda state: state.with_section("keys", {"k": {"a": 1}}))
    catalog.activate()
    again = Catalog.open(tmp_path, 2)
    assert again.state == catalog.state
    assert again.index("movies").configuration.language == "english"
    assert again.section("keys") == {"k": {"a": 1}}


async def test_an_index_is_seen_when_it_is_activated_an_alias_at_once(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, 2)
    await catalog.change(lambda state: _with_index(state, "films"), is_active=False)
    await catalog.change(lambda state: state.with_aliases({"movies": "films"}))
    with pytest.raises(NotFound):
        catalog.index("films")
    with pytest.raises(NotFound):
        catalog.index("movies")
    assert len(catalog.message().indexes) == 1
    catalog.activate()
    assert catalog.index("movies") is catalog.index("films")


@pytest.mark.parametrize(
    ("name", "advice"),
    [("films", "POST a configuration"), ("*", "POST /_search"), ("films,books", "POST /_search")],
)
async def test_a_name_of_several_indexes_is_answered_with_the_page_for_them(
    tmp_path: Path, name: str, advice: str
) -> None:
    with pytest.raises(NotFound) as caught:
        Catalog.open(tmp_path, 2).index(name)
    assert (caught.value.advice or "").startswith(advice)


async def test_a_removed_index_takes_its_aliases_along(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, 2)
    await catalog.change(lambda state: _with_index(state, "films"))
    await catalog.change(lambda state: state.with_aliases({"movies": "films", "x": "films"}))
    await catalog.change(lambda state: state.with_aliases({"x": None}))
    assert catalog.aliases == {"movies": "films"}
    await catalog.change(lambda state: state.without_index("films"))
    catalog.activate()
    assert catalog.indexes == {}
    assert catalog.aliases == {}


async def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, 2)

    def refuse(_: CatalogState) -> CatalogState:
        raise NotFound("no")

    with pytest.raises(NotFound):
        await catalog.change(refuse)
    assert catalog.state.revision == 0


async def test_a_write_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.open(tmp_path, 2)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    # The append, its sync, and the replacement that follows a failed append.
    for module, name in (
        (catalog_file, "write_all"),
        (catalog_file, "write_atomically"),
        (os, "fdatasync"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            with pytest.raises(StorageFull, match="nothing was changed"):
                await catalog.change(lambda state: _with_index(state, "films"))
        assert catalog.state.revision == 0
        assert read_state(catalog_path(tmp_path)).revision == 0
        if name == "write_atomically":  # so that the next change is appended again
            catalog = Catalog.open(tmp_path, 2)
    await catalog.change(lambda state: _with_index(state, "films"))
    assert Catalog.open(tmp_path, 2).state == catalog.state


def _fail(patch: pytest.MonkeyPatch, module: Any, name: str, num_failures: int = 1) -> None:
    """Let the first calls of a function fail as those of a failing device do."""
    works, left = getattr(module, name), [None] * num_failures

    def fail(*arguments: Any) -> Any:
        if left:
            left.pop()
            raise OSError(5, "Input/output error")
        return works(*arguments)

    patch.setattr(module, name, fail)


_SYNCS = {
    True: ((os, "fdatasync"), (os, "ftruncate")),
    False: ((durable_files, "sync_folder"),),
}
"""What fails once all of the new state is written, by whether it is appended."""


@pytest.mark.parametrize("is_appended", [True, False])
async def test_the_next_process_does_not_find_a_change_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_appended: bool
) -> None:
    """Requests still see the former state, so nothing else may be read after a kill."""
    if not is_appended:
        monkeypatch.setattr(catalog_file, "LINES_BYTES_MIN", -(1 << 20))
    catalog = Catalog.open(tmp_path, 2)
    await catalog.change(lambda state: _with_index(state, "films"))
    for module, name in _SYNCS[is_appended]:
        _fail(monkeypatch, module, name)
    with pytest.raises(InternalError, match="nothing was changed"):
        await catalog.change(lambda state: state.without_index("films"))
    assert [one.name for one in catalog.state.indexes] == ["films"]
    assert Catalog.open(tmp_path, 2).state == catalog.state


async def test_a_state_that_only_another_process_can_know_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.open(tmp_path, 2)
    await catalog.change(lambda state: _with_index(state, "films"))
    doubts: list[CatalogInDoubt] = []
    catalog.on_doubt = doubts.append
    _fail(monkeypatch, os, "fdatasync", 99)
    _fail(monkeypatch, os, "fsync", 99)
    with pytest.raises(CatalogInDoubt, match="output"):
        await catalog.change(lambda state: _with_index(state, "books"))
    assert len(doubts) == 1


@pytest.mark.parametrize("num_cancellations", [1, 2, 3])
async def test_a_cancelled_change_is_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_cancellations: int
) -> None:
    catalog = Catalog.open(tmp_path, 2)
    may_end = threading.Event()
    store = catalog_file.CatalogFile.store

    def store_slowly(*arguments: Any) -> None:
        may_end.wait()
        store(*arguments)

    monkeypatch.setattr(catalog_file.CatalogFile, "store", store_slowly)
    changing = asyncio.ensure_future(catalog.change(lambda state: _with_index(state, "films")))
    for _ in range(num_cancellations):
        await asyncio.sleep(0.01)
        changing.cancel()
    following = asyncio.ensure_future(catalog.change(lambda state: _with_index(state, "books")))
    await asyncio.sleep(0.01)
    may_end.set()
    await asyncio.gather(changing, following, return_exceptions=True)
    assert changing.cancelled()
    assert Catalog.open(tmp_path, 2).state == catalog.state
    assert [one.name for one in catalog.state.indexes] == ["films", "books"]


async def test_listeners_hear_of_changes(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, 2)
    told: list[int] = []
    catalog.on_change(lambda: told.append(catalog.state.revision))
    await catalog.change(lambda state: state.with_section("keys", {}))
    assert told == [1]


def test_another_number_of_shards_is_refused_with_the_way_out(tmp_path: Path) -> None:
    Catalog.open(tmp_path, 4)
    with pytest.raises(DataDirectoryError) as caught:
        Catalog.open(tmp_path, 2)
    assert "made with 4 shards" in str(caught.value)
    assert "--shards 4" in str(caught.value)
    assert "facetd reshard" in str(caught.value)


async def test_a_catalog_that_does_not_decide_the_shards_leaves_them_to_the_next(
    tmp_path: Path,
) -> None:
    """Such as that of a key which is made before the first start."""
    Catalog.open(tmp_path, 1, decides_shards=False)
    assert not holds_data(tmp_path), "as after a crash before the manifest"
    catalog = Catalog.open(tmp_path, 1, decides_shards=False)
    await catalog.change(lambda state: state.with_section("keys", {"k": {"a": 1}}))
    assert holds_data(tmp_path)
    assert Catalog.open(tmp_path, 2).section("keys") == {"k": {"a": 1}}
    with pytest.raises(DataDirectoryError, match="made with 2 shards"):
        Catalog.open(tmp_path, 1, decides_shards=False)


def test_a_directory_holds_data_from_its_manifest_on(tmp_path: Path) -> None:
    assert not holds_data(tmp_path)
    Catalog.open(tmp_path, 2)
    assert holds_data(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    Catalog.open(tmp_path, 2)
    manifest = json.loads(manifest_path(tmp_path).read_bytes())
    manifest_path(tmp_path).write_text(json.dumps(manifest | {"format": 99, "min_reader": 98}))
    with pytest.raises(DataDirectoryError, match="format 99"):
        Catalog.open(tmp_path, 2)


def test_data_whose_ids_are_placed_by_another_hash_are_refused(tmp_path: Path) -> None:
    """Its items would be looked for, and written again, on other shards than have them."""
    Catalog.open(tmp_path, 2)
    manifest = json.loads(manifest_path(tmp_path).read_bytes())
    manifest_path(tmp_path).write_text(json.dumps(manifest | {"hash": "fnv1a"}))
    with pytest.raises(
        DataDirectoryError, match=r"places ids by fnv1a.* restore them from a backup"
    ):
        Catalog.open(tmp_path, 2)


def test_an_older_format_is_used_and_older_programs_refuse_it_from_then_on(tmp_path: Path) -> None:
    Catalog.open(tmp_path, 2)
    manifest = json.loads(manifest_path(tmp_path).read_bytes())
    old = manifest | {"format": 1, "min_reader": 1, "created_by": "facetd 0.1"}
    manifest_path(tmp_path).write_text(json.dumps(old))

    Catalog.open(tmp_path, 2)

    assert json.loads(manifest_path(tmp_path).read_bytes()) == manifest


@pytest.mark.parametrize("content", [b"", b"{", b"null", b'{"shards":2}', b"\xff"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    Catalog.open(tmp_path, 2)
    manifest_path(tmp_path).write_bytes(content)
    with pytest.raises(DataDirectoryError, match="backup"):
        Catalog.open(tmp_path, 2)


async def test_any_flipped_byte_of_the_catalog_is_noticed(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path, 2)
    await catalog.change(lambda state: _with_index(state, "films", {"language": "english"}))
    path = catalog_path(tmp_path)
    content = path.read_bytes()
    for position, bit in itertools.product(range(len(content) - 1), (0x01, 0x80)):
        damaged = bytearray(content)
        damaged[position] ^= bit
        path.write_bytes(damaged)
        try:
            state = Catalog.open(tmp_path, 2).state
        except DataDirectoryError as error:
            assert "damaged" in str(error)  # noqa: PT017
        else:
            assert state == catalog.state


@pytest.mark.parametrize("content", [b"", b'{"checksum":"","state":{}}'])
def test_an_empty_catalog_beside_a_manifest_is_not_believed(tmp_path: Path, content: bytes) -> None:
    Catalog.open(tmp_path, 2)
    catalog_path(tmp_path).write_bytes(content)
    with pytest.raises(DataDirectoryError, match="damaged"):
        Catalog.open(tmp_path, 2)
    catalog_path(tmp_path).unlink()
    with pytest.raises(DataDirectoryError, match="missing"):
        Catalog.open(tmp_path, 2)


def test_a_crash_before_the_manifest_heals(tmp_path: Path) -> None:
    Catalog.open(tmp_path, 2)
    manifest_path(tmp_path).unlink()
    Catalog.open(tmp_path, 2)
    assert manifest_path(tmp_path).exists()


async def test_opening_parses_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a start with 10,000 indexes: parsing took three seconds of it."""
    catalog = Catalog.open(tmp_path, 2)
    document = {"aggregations": {"b": {}, "a": {"size": 3}}, "language": "english"}
    for name in ("films", "books"):
        await catalog.change(lambda state, name=name: _with_index(state, name, document))  # type: ignore[misc]
    await catalog.change(lambda state: _with_index(state, "plain"))

    def refuse(document: dict[str, Any]) -> None:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(catalog_module, "parse_stored", refuse)
        again = Catalog.open(tmp_path, 2)
        assert [one.facets for one in again.indexes.values()] == [["a", "b"], ["a", "b"], []]
    assert again.state == catalog.state
    films, books = again.index("films"), again.index("books")
    assert list(films.configuration.facets) == films.facets
    assert films.configuration is books.configuration
    assert films.configuration.facets["a"].size == 3


async def test_a_change_encodes_only_what_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.open(tmp_path, 2)
    for name in ("films", "books"):
        await catalog.change(lambda state, name=name: _with_index(state, name))  # type: ignore[misc]
    encoded: list[object] = []
    encode: Callable[[object], bytes] = msgspec.json.encode

    def note(value: object) -> bytes:
        encoded.append(value)
        return encode(value)

    with monkeypatch.context() as patch:
        patch.setattr(msgspec.json, "encode", note)
        await catalog.change(lambda state: _with_index(state, "books", {"language": "english"}))
    changes = [one for one in encoded if isinstance(one, StateChange)]
    assert [[one.name for one in change.changed] for change in changes] == [["books"]]
    assert not any(isinstance(one, (CatalogState, StoredIndex)) for one in encoded)
    assert Catalog.open(tmp_path, 2).state == catalog.state
    await catalog.change(lambda state: state.without_index("films"))
    assert [one.name for one in Catalog.open(tmp_path, 2).state.indexes] == ["books"]


async def test_every_order_of_changes_is_stored_and_seen(tmp_path: Path) -> None:
    """What is kept of the last encoding and of the last state seen must fit any next change."""
    catalog = Catalog.open(tmp_path, 2)
    dice = random.Random(24)
    for step in range(150):
        told = catalog.state
        names = [one.name for one in told.indexes]
        kind = dice.choice(
            ["add", "add", "replace", "remove", "rename", "swap", "alias", "section"]
        )
        name = dice.choice(names) if names and kind != "add" else f"index{step}"
        if kind == "alias":
            await catalog.change(lambda state, a=f"a{step}", n=name: state.with_aliases({a: n}))  # type: ignore[misc]
        elif kind == "section":
            await catalog.change(lambda state, n=step: state.with_section("keys", {"k": n}))  # type: ignore[misc]
        elif kind == "remove":
            await catalog.change(lambda state, n=name: state.without_index(n))  # type: ignore[misc]
        elif kind == "swap" and len(names) > 1:
            other = next(one for one in names if one != name)
            await catalog.change(lambda state, n=name, o=other: state.replaced(n, o))  # type: ignore[misc]
        elif kind == "rename" and names:
            await catalog.change(
                lambda state, n=name, new=f"renamed{step}": state.renamed(n, new, keeps_alias=False)  # type: ignore[misc]
            )
        else:
            await catalog.change(lambda state, n=name: _with_index(state, n, {"size": n}))  # type: ignore[misc]
        if step == 75:
            await catalog.change(CatalogState.without_sources)
        state = catalog.state
        assert read_state(catalog_path(tmp_path)) == state
        # Shards apply the difference to what they had.
        update = catalog.message(told)
        entries = {one.number: one.entry for one in told.indexes if one.number not in update.gone}
        entries |= {one.number: one for one in update.indexes}
        assert entries == {one.number: one.entry for one in state.indexes}
        if dice.random() < 0.7:
            catalog.activate()
            assert catalog.is_active
            seen = {name: (one.number, one.revision) for name, one in catalog.indexes.items()}
            assert seen == {one.name: (one.number, one.revision) for one in state.indexes}
            assert all(one.name == name for name, one in catalog.indexes.items())


async def test_a_new_index_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    """With 10,000 indexes a change looked at each of them twelve times."""
    catalog = Catalog.open(tmp_path, 2)
    for step in range(5):
        await catalog.change(lambda state, n=f"index{step}": _with_index(state, n))  # type: ignore[misc]
        catalog.activate()
    former = catalog.state
    kept = dict(catalog.indexes)
    await catalog.change(lambda state: _with_index(state, "more"), is_active=False)
    changed = difference(former.indexes, catalog.state.indexes).changed
    assert [one.name for one in changed] == ["more"]
    catalog.activate()
    assert all(catalog.indexes[name] is index for name, index in kept.items())
