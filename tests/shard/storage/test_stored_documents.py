"""Items come back byte for byte; a changed byte is never served."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import InternalError, PayloadTooLarge
from shard.caches.decompressed_item_cache import RecentItems
from shard.storage import item_batch_decoding, stored_documents
from shard.storage.compression_dictionaries import train_dictionary
from shard.storage.lmdb_codecs import CODEC_RAW, CODEC_WORDS, as_bytes_array, number_key
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.stored_documents import READ_AT_ONCE_MAX, DocumentStore


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    environment = Environment.create(tmp_path, 1 << 30)
    yield environment
    environment.close()


def _append(environment: Environment, store: DocumentStore, first: int, items: list[bytes]) -> None:
    sizes = np.array([len(item) for item in items], np.int64)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(first, first + len(items), dtype=np.uint64) + np.uint64(1 << 40)
    encoded = store.encode(as_bytes_array(b"".join(items)), starts, sizes, places, first)
    with environment.write() as txn:
        for batch in encoded.batches():
            txn.append(SubDatabase.DOCUMENTS, batch)


def _items(count: int) -> list[bytes]:
    return [b'{"id":%d,"name":"thing %d","tags":["red","blue"]}' % (i, i * 7) for i in range(count)]


def _read_joined(store: DocumentStore, records: range) -> list[bytes]:
    """Return items that were read in one piece."""
    joined, ends = store.read_joined(records)
    spans = itertools.pairwise([0, *ends.tolist()])
    return [joined[start:end].tobytes() for start, end in spans]


def _codec(environment: Environment, record: int) -> int:
    with environment.read() as txn:
        value = txn.get(SubDatabase.DOCUMENTS, number_key(record))
    assert value is not None
    return value[4]


def test_items_come_back_in_the_order_asked_for(environment: Environment) -> None:
    store = DocumentStore(environment)
    items = _items(20)
    _append(environment, store, 0, items)

    assert store.read([7, 3, 3, 19]) == [items[7], items[3], items[3], items[19]]


def test_recently_read_items_are_cached(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one store, and not those of a large read."""
    monkeypatch.setattr(stored_documents, "RECENT_ITEMS", RecentItems(1 << 20))
    store, other = DocumentStore(environment), DocumentStore(environment)
    items = _items(READ_AT_ONCE_MAX + 1)
    _append(environment, store, 0, items)
    assert store.read([3, 5]) == [items[3], items[5]]
    assert store.read(range(len(items))) == items
    with environment.write() as txn:
        for record in (3, 5, 7):
            txn.delete(SubDatabase.DOCUMENTS, number_key(record))
    assert store.read([5, 4, 3, 5]) == [items[5], items[4], items[3], items[5]]
    with pytest.raises(InternalError):
        store.read([3, 7])
    with pytest.raises(InternalError):
        other.read([3])


def test_items_of_before_and_after_training_come_back(environment: Environment) -> None:
    store = DocumentStore(environment)
    items = _items(3_000)
    _append(environment, store, 0, items[:1_000])
    assert store.wants_training(1_000)
    assert not store.wants_training(999)
    store.train(items[:1_000])
    assert not store.wants_training(3_999)
    _append(environment, store, 1_000, items[1_000:1_003])
    _append(environment, store, 1_003, items[1_003:])

    assert store.read(range(3_000)) == items
    assert DocumentStore(environment).read(range(3_000)) == items
    assert _read_joined(store, range(3_000)) == items
    assert _read_joined(store, range(1_000, 3_000)) == items[1_000:]
    with environment.read() as txn:
        raw, packed = (txn.get(SubDatabase.DOCUMENTS, number_key(n)) for n in (10, 2_000))
    assert raw is not None
    assert packed is not None
    assert len(packed) < len(raw) / 1.5


def test_words_are_learnt_again_from_a_much_larger_group(environment: Environment) -> None:
    store = DocumentStore(environment)
    items = _items(5_000)
    store.train(items[:1_000])
    _append(environment, store, 0, items[:1_000])
    assert not store.wants_training(3_000)
    assert store.wants_training(4_000)
    store.train(items[1_000:])
    assert not store.wants_training(4_000)
    _append(environment, store, 1_000, items[1_000:])

    reopened = DocumentStore(environment)
    assert reopened.read(range(5_000)) == items
    assert _read_joined(reopened, range(5_000)) == items
    assert not reopened.wants_training(4_000)
    assert _codec(environment, 999) == CODEC_WORDS | 1
    assert _codec(environment, 1_000) == CODEC_WORDS | 2


def test_items_that_share_more_than_words_are_left_to_zstd(environment: Environment) -> None:
    """The way of format 1: indexes that have such a dictionary keep it."""
    rng = np.random.default_rng(5)
    blocks = [rng.integers(0, 256, 300, np.uint8).tobytes() for _ in range(20)]
    items = [blocks[i % 20] + b"%d" % i + blocks[i * 7 % 20] for i in range(1_500)]
    store = DocumentStore(environment)
    store.train(items)
    _append(environment, store, 0, items)

    assert _codec(environment, 7) == CODEC_RAW | 1
    reopened = DocumentStore(environment)
    assert reopened.read(range(1_500)) == items
    assert _read_joined(reopened, range(1_500)) == items
    assert not reopened.wants_training(1 << 20)


@pytest.mark.parametrize("way", ["raw", "words", "zstd"])
def test_items_that_are_too_large_together_are_not_decompressed(
    environment: Environment, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    blocks = [rng.integers(0, 256, 300, np.uint8).tobytes() for _ in range(20)]
    items = [blocks[i % 20] + b"%d" % i + blocks[i * 7 % 20] for i in range(1_500)]
    items = items if way == "zstd" else _items(1_500)
    store = DocumentStore(environment)
    if way != "raw":
        store.train(items)
    _append(environment, store, 0, items)
    records = range(2 * READ_AT_ONCE_MAX)
    size = sum(map(len, items[: len(records)]))

    assert store.read(records, size) == items[: len(records)]
    monkeypatch.setattr(store, "_decode", pytest.fail)
    monkeypatch.setattr(item_batch_decoding, "_decode_values", pytest.fail)
    with pytest.raises(PayloadTooLarge):
        store.read(records, size - 1)


def test_the_bound_of_a_page_counts_items_of_all_dictionaries(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stored_documents, "RECENT_ITEMS", RecentItems(0)
    )  # other tests have begun it
    store = DocumentStore(environment)
    items = _items(3_000)
    for first in (0, 1_500):
        store.train(items[first : first + 1_500])
        _append(environment, store, first, items[first : first + 1_500])
    records = [*range(20), *range(1_500, 1_520)]
    page = [items[record] for record in records]
    size = sum(map(len, page))

    assert store.read(records, size) == page
    with pytest.raises(PayloadTooLarge):
        store.read(records, size - 1)


@pytest.mark.parametrize("num_cached", [0, 5, 20])
def test_the_bound_of_a_page_counts_items_that_are_cached(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, num_cached: int
) -> None:
    monkeypatch.setattr(stored_documents, "RECENT_ITEMS", RecentItems(1 << 20))
    store = DocumentStore(environment)
    items = _items(20)
    _append(environment, store, 0, items)
    size = sum(map(len, items))
    for record in range(num_cached):
        store.read([record])

    with pytest.raises(PayloadTooLarge):
        store.read(range(20), size - 1)
    assert store.read(range(20), size) == items


def test_a_frame_that_no_encoder_made_is_damage(environment: Environment) -> None:
    """With the right checksum, as from a program with an error."""
    store = DocumentStore(environment)
    store.train(_items(1_500))
    _append(environment, store, 0, _items(3))
    for payload in (b"", b"\xff" * 9, b"\x05"):
        for codec in (CODEC_WORDS | 1, CODEC_WORDS | 2, CODEC_RAW | 1):
            rest = bytes([codec]) + bytes(8) + payload
            checksum = (xxhash.xxh64_intdigest(rest) ^ 1) & 0xFFFF_FFFF
            with environment.write() as txn:
                value = checksum.to_bytes(4, "little") + rest
                txn.put(SubDatabase.DOCUMENTS, number_key(1), value)
            for records in ([0, 1, 2], [0, *[1] * 2 * READ_AT_ONCE_MAX]):
                with pytest.raises(InternalError):  # and not that they are too large
                    store.read(records, 10_000_000)
            assert store.read_some([0, 1, 2], 1_000) == [_items(3)[0], None, _items(3)[2]]


def test_item_that_grows_by_compression_is_stored_as_it_is(environment: Environment) -> None:
    store = DocumentStore(environment)
    store.train(_items(1_500))
    noise = np.random.default_rng(1).integers(0, 256, 5_000, np.uint8).tobytes()
    items = [*_items(10), noise, b"{}", *_items(3)]
    _append(environment, store, 0, items)

    assert store.read(range(len(items))) == items


@pytest.mark.parametrize("samples", [[b"{}"] * 1_000, [b"a"], []], ids=["alike", "one", "none"])
def test_training_on_nothing_to_learn_gives_no_dictionary(samples: list[bytes]) -> None:
    assert train_dictionary(1, samples, words_number=1) is None


def test_scan_yields_records_places_and_documents(environment: Environment) -> None:
    store = DocumentStore(environment)
    items = _items(5)
    _append(environment, store, 0, items)

    with environment.read() as txn:
        scanned = list(store.scan(txn, 2))

    assert [one.record for one in scanned] == [2, 3, 4]
    assert [one.place for one in scanned] == [(1 << 40) + n for n in (2, 3, 4)]
    assert [one.document for one in scanned] == items[2:]


def test_missing_record_is_an_error(environment: Environment) -> None:
    store = DocumentStore(environment)

    with pytest.raises(InternalError) as caught:
        store.read([5])

    assert caught.value.code == "item_corrupt"
    assert store.num_corrupt == 1
    with pytest.raises(InternalError):
        store.read_joined([5])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), is_packed=st.booleans())
def test_any_flipped_bit_is_noticed(
    environment: Environment, where: float, is_packed: bool
) -> None:
    store = DocumentStore(environment)
    if is_packed:
        store.train(_items(1_500))
    with environment.read() as txn:
        keys = [key for key, _ in txn.items(SubDatabase.DOCUMENTS)]
        first = int.from_bytes(keys[-1] if keys else b"", "big") + 1
    _append(environment, store, first, _items(1))
    key = number_key(first)
    with environment.write() as txn:
        value = bytearray(txn.get(SubDatabase.DOCUMENTS, key) or b"")
        bit = int(where * len(value) * 8)
        value[bit >> 3] ^= 1 << (bit & 7)
        txn.put(SubDatabase.DOCUMENTS, key, bytes(value))

    with pytest.raises(InternalError):
        store.read([first])
    with pytest.raises(InternalError):
        store.read_joined([first])


def test_value_under_another_key_is_noticed(environment: Environment) -> None:
    store = DocumentStore(environment)
    _append(environment, store, 0, _items(2))
    with environment.write() as txn:
        first = txn.get(SubDatabase.DOCUMENTS, number_key(0))
        assert first is not None
        txn.put(SubDatabase.DOCUMENTS, number_key(1), first)

    with pytest.raises(InternalError):
        store.read([1])
