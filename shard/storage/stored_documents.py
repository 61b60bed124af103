"""Stored items: encodes the bytes that a client sent, and reads them back by record.

    documents: maps record (u64 BE) to | checksum u32 | codec u8 | place u64 | payload |

Each item is compressed on its own, with a dictionary trained on the first items
(`compression_dictionaries`). Until there are enough items to train on, and where compression does
not pay off, payloads are stored as they are.

Worked example: item {"id":5} with place 7 as record 0 before any training is stored under
00 00 00 00 00 00 00 00 as  cc cc cc cc | 10 | 07 00 00 00 00 00 00 00 | 7b 22 69 64 22 3a 35 7d.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray

from common.errors import InternalError
from common.hits_page_byte_limit import FEW_ITEMS, page_too_large
from shard.caches.decompressed_item_cache import RECENT_ITEMS
from shard.storage.compression_dictionaries import (
    TRAINING_ITEM_BYTES_MAX,
    TRAINING_ITEMS_MAX,
    WordsDictionary,
    ZstdDictionary,
    open_words,
    train_dictionary,
)
from shard.storage.lmdb_codecs import (
    CODEC_RAW,
    CODEC_WORDS,
    DICTIONARIES_MAX,
    ITEM_HEADER_BYTES,
    ChecksumMismatch,
    EncodedItems,
    as_bytes_array,
    check_value,
    decode_value,
    encode_items,
    encode_value,
    item_place,
    key_number,
    number_key,
)
from shard.storage.lmdb_environment import Environment, SubDatabase, Transaction
from shard.storage.lmdb_page_check import END

_SIZE_BYTES = 18
"""Bytes at the start of a zstd frame without magic number that suffice to read its size."""
TRAINING_ITEMS_MIN = 1_000
"""Fewer items are too few to train on, and too few to matter on disk."""
TRAINING_BYTES_MAX = 16 << 20
RETRAINING_FACTOR = 4
"""A group with this many times the items of the last training trains a dictionary again."""

READ_AT_ONCE_MAX = 64
"""Larger reads (exports, deep pages) bypass the cache: few of their items are read again soon."""

_DICTIONARY_PREFIX = b"dictionary/"
_WORDS_PREFIX = b"words/"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class StoredItem:
    """One item as read back for indexing."""

    record: int
    place: int
    document: bytes | None
    """None: damaged."""


class DocumentStore:
    """Encodes items for LMDB and reads them back; one per index and shard.

    Attributes:
        num_corrupt: damaged items met so far.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._number = next(_numbers)
        self._dictionaries: dict[int, ZstdDictionary] = {}
        self._words: dict[int, WordsDictionary] = {}
        self._current: ZstdDictionary | WordsDictionary | None = None
        self._tried_items = 0
        self.num_corrupt = 0
        with environment.read() as txn:
            for key, value in txn.items(SubDatabase.META, prefix=_DICTIONARY_PREFIX):
                number = int(key.removeprefix(_DICTIONARY_PREFIX))
                content = decode_value(number, value, "a compression dictionary")
                self._current = self._dictionaries[number] = ZstdDictionary(number, content)
            for key, value in txn.items(SubDatabase.META, prefix=_WORDS_PREFIX):
                number = int(key.removeprefix(_WORDS_PREFIX))
                content = decode_value(number, value, "a compression dictionary")
                self._words[number] = open_words(number, content)
        if self._words:  # the newest was trained on the most items
            self._current = self._words[max(self._words)]

    def wants_training(self, num_items: int) -> bool:
        """Return whether to train a dictionary on a group of this many items."""
        known = self._tried_items
        if self._current is not None:
            known = max(known, min(self._current.num_items, TRAINING_ITEMS_MAX))
        if not known:
            return num_items >= TRAINING_ITEMS_MIN
        return known < TRAINING_ITEMS_MAX and num_items >= RETRAINING_FACTOR * known

    def train(self, samples: Sequence[bytes]) -> None:
        """Train a dictionary, and commit it before its first use.

        Args:
            samples: items from all parts of a group; the first ones are used, up to
                `TRAINING_ITEMS_MAX` items and `TRAINING_BYTES_MAX` bytes.

        Raises:
            StorageFull, StorageFailure: see `Environment.change`.
        """
        total = 0
        chosen = []
        for sample in samples[:TRAINING_ITEMS_MAX]:
            total += min(len(sample), TRAINING_ITEM_BYTES_MAX)
            if total > TRAINING_BYTES_MAX:
                break
            chosen.append(sample)
        self._tried_items = len(samples)
        number, words_number = len(self._dictionaries) + 1, len(self._words) + 1
        if max(number, words_number) > DICTIONARIES_MAX:
            return
        dictionary = train_dictionary(number, chosen, words_number=words_number)
        if dictionary is None:
            return
        is_words = isinstance(dictionary, WordsDictionary)
        prefix = _WORDS_PREFIX if is_words else _DICTIONARY_PREFIX
        key = prefix + b"%d" % dictionary.number
        value = encode_value(dictionary.number, dictionary.content)
        self._environment.change(lambda txn: txn.put(SubDatabase.META, key, value))
        if isinstance(dictionary, WordsDictionary):
            self._words[dictionary.number] = dictionary
        else:
            self._dictionaries[dictionary.number] = dictionary
        self._current = dictionary

    def encode(
        self,
        payload: NDArray[np.uint8],
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        places: NDArray[np.uint64],
        first_record: int,
    ) -> EncodedItems:
        """Compress the items of a batch, and put headers before them; only the writer calls this.

        Args:
            payload: memory that holds all items.
            starts: where each item begins in `payload`; shape (n,), as the next two.
            sizes: bytes of each item.
            places: insertion number of each item.
            first_record: record of the first item.
        """
        if self._current is None or not len(starts):
            codecs = np.full(len(starts), CODEC_RAW, np.uint8)
            return encode_items(payload, starts, sizes, codecs, places, first_record)
        dictionary = self._current
        source, frame_sizes = dictionary.compress(payload, starts, sizes)
        codecs = np.full(len(starts), dictionary.codec, np.uint8)
        frame_starts = np.cumsum(frame_sizes) - frame_sizes
        is_larger = (frame_sizes >= sizes) | (frame_sizes == 0)
        if is_larger.any():
            frame_starts = np.where(is_larger, starts + len(source), frame_starts)
            frame_sizes = np.where(is_larger, sizes, frame_sizes)
            codecs[is_larger] = CODEC_RAW
            source = np.concatenate((source, payload))
        return encode_items(source, frame_starts, frame_sizes, codecs, places, first_record)

    def read(self, records: Sequence[int], bytes_max: int = sys.maxsize) -> list[bytes]:
        """Return the bytes of items as they were received.

        Args:
            records: of the items.
            bytes_max: most bytes of all items, if they are more than `FEW_ITEMS`.

        Raises:
            InternalError: item_corrupt, an item is damaged or missing.
            PayloadTooLarge: the items have more bytes.
        """
        if len(records) > READ_AT_ONCE_MAX or not RECENT_ITEMS.bytes_max:
            return self._read(records, bytes_max)
        found = RECENT_ITEMS.get(self._number, records)
        if None in found:
            if len(records) == 1:
                found = self._read(records)  # type: ignore[assignment]
                RECENT_ITEMS.put((self._number, records[0]), found[0])  # type: ignore[arg-type]
            else:
                self._add_missing(records, found, bytes_max)
        items: list[bytes] = found  # type: ignore[assignment]  # none is missing
        if len(items) > FEW_ITEMS and sum(map(len, items)) > bytes_max:
            raise page_too_large()
        return items

    def _add_missing(
        self, records: Sequence[int], found: list[bytes | None], bytes_max: int
    ) -> None:
        """Read the items that are not found yet, and keep them."""
        at = [i for i, item in enumerate(found) if item is None]
        missing = [records[i] for i in at]
        for i, record, item in zip(at, missing, self._read(missing, bytes_max), strict=True):
            RECENT_ITEMS.put((self._number, record), item)
            found[i] = item

    def _read(self, records: Sequence[int], bytes_max: int = sys.maxsize) -> list[bytes]:
        """Read items from LMDB."""
        keys = [number_key(record) for record in records]
        values = self._environment.get_many(SubDatabase.DOCUMENTS, keys)
        if len(records) == 1:
            return [self._decode(records[0], values[0])]
        return self._decode_many(
            records, values, bytes_max if len(records) > FEW_ITEMS else sys.maxsize
        )

    def read_joined(self, records: Sequence[int]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of many items, one after the other, and where each ends.

        Raises:
            InternalError: item_corrupt, an item is damaged or missing.
        """
        keys = [number_key(record) for record in records]
        values = self._environment.get_many(SubDatabase.DOCUMENTS, keys)
        if isinstance(self._current, WordsDictionary):
            joined = self._current.read_joined(records, values)
            if joined is not None:
                return joined
        # Some are from the time before these words were learnt, or damaged.
        items = self._decode_many(records, values, sys.maxsize)
        ends = np.cumsum(np.fromiter(map(len, items), np.int64, len(items)))
        return as_bytes_array(b"".join(items)), ends

    def _decode_many(
        self, records: Sequence[int], values: Sequence[bytes | None], bytes_max: int
    ) -> list[bytes]:
        """Return the items of values; those with the same words are decoded in one call.

        Sizes are checked before decoding, which may make thousands of bytes out of one.

        Raises:
            InternalError: item_corrupt, an item is damaged or missing.
            PayloadTooLarge: the items have more than `bytes_max` bytes.
        """
        items: list[bytes | None] = [None] * len(records)
        num_bytes = 0
        for codec in {value[4] for value in values if value is not None and len(value) > 4}:
            words = self._words.get(codec ^ CODEC_WORDS)
            if words is None:
                continue
            for at, item in enumerate(words.read(records, values, bytes_max - num_bytes)):
                if item is not None:
                    items[at] = item
                    num_bytes += len(item)
        missing = [at for at, item in enumerate(items) if item is None]
        if missing:
            num_bytes += sum([self._size_of(records[at], values[at]) for at in missing])
            if num_bytes > bytes_max:
                raise page_too_large()
            for at in missing:
                items[at] = self._decode(records[at], values[at])
        return items  # type: ignore[return-value]  # none is missing

    def _size_of(self, record: int, value: bytes | None) -> int:
        """Return the size of an item that is not in word codes; 0 for a damaged or missing one.

        Raises:
            InternalError: item_corrupt, the checksum differs.
        """
        if value is None or len(value) <= ITEM_HEADER_BYTES or value[4] & 0xF0 == CODEC_WORDS:
            return 0
        if value[4] == CODEC_RAW:
            return len(value) - ITEM_HEADER_BYTES
        start = self._check(record, value)[:_SIZE_BYTES]
        try:
            return max(zstandard.frame_content_size(zstandard.FRAME_HEADER + start), 0)
        except zstandard.ZstdError:
            return 0

    def read_some(self, records: Sequence[int], bytes_max: int) -> list[bytes | None]:
        """Return the first of some items, up to the one with which they reach `bytes_max` bytes.

        Returns:
            At least one, if any was requested; None for a damaged or missing one.
        """
        found: list[bytes | None] = []
        num_bytes = 0
        with self._environment.read() as txn:
            for record in records:
                try:
                    item = self._decode(record, txn.get(SubDatabase.DOCUMENTS, number_key(record)))
                except InternalError:
                    found.append(None)
                    continue
                found.append(item)
                num_bytes += len(item)
                if num_bytes >= bytes_max:
                    break
        return found

    def fingerprint(self, records: Sequence[int]) -> tuple[int, int]:
        """Return a hash of a set of items with their places, and how many are damaged.

        Returns:
            The sum of xxh3_64(bytes, seed=place) modulo 2**64, and the number of items that are not
            in it because they are damaged.
        """
        total = num_damaged = 0
        keys = [number_key(record) for record in records]
        values = self._environment.get_many(SubDatabase.DOCUMENTS, keys)
        for record, value in zip(records, values, strict=True):
            try:
                item = self._decode(record, value)
            except InternalError:
                num_damaged += 1
            else:
                assert value is not None
                total += xxhash.xxh3_64_intdigest(item, item_place(value))
        return total % 2**64, num_damaged

    def scan(self, txn: Transaction, first_record: int) -> Iterator[StoredItem]:
        """Yield the items from a record on, in order; damaged ones without their bytes.

        Raises:
            InternalError: item_corrupt, a page with items is damaged.
        """
        first = number_key(first_record)
        uppers = self._environment.look_ahead(SubDatabase.DOCUMENTS, first=first)
        upper = next(uppers, END)
        next_upper = next(uppers, END)  # a step may enter the next page: check that too
        for key, value in txn.items(SubDatabase.DOCUMENTS, first):
            if key >= upper:
                upper, next_upper = next_upper, next(uppers, END)
            record = key_number(key)
            try:
                yield StoredItem(record, item_place(value), self._decode(record, value))
            except InternalError:
                yield StoredItem(record, 0, None)

    def _decode(self, record: int, value: bytes | None) -> bytes:
        """Return the item of a value.

        Raises:
            InternalError: item_corrupt, it is damaged or missing.
        """
        payload = self._check(record, value)
        codec = CODEC_RAW if value is None else value[4]
        if codec == CODEC_RAW:
            return payload
        if codec & 0xF0 != CODEC_WORDS:
            return self._decompress(codec, payload)
        words = self._words.get(codec ^ CODEC_WORDS)
        item = None if words is None else words.decompress(payload)
        if item is None:
            raise self._corrupt()
        return item

    def _check(self, record: int, value: bytes | None) -> bytes:
        """Verify a value, and return its payload.

        Raises:
            InternalError: item_corrupt, it is damaged or missing.
        """
        try:
            if value is None:
                raise ChecksumMismatch("there is no such record")
            check_value(record, value)
        except ChecksumMismatch as error:
            raise self._corrupt() from error
        return value[ITEM_HEADER_BYTES:]

    def _decompress(self, codec: int, payload: bytes) -> bytes:
        try:
            return self._dictionaries[codec ^ CODEC_RAW].decompress(payload)
        except (KeyError, zstandard.ZstdError) as error:
            raise self._corrupt() from error

    def _corrupt(self) -> InternalError:
        self.num_corrupt += 1
        return InternalError(
            "an item is damaged on disk: write it again, restore the index from a backup, or "
            "remove it with facetd rebuild --drop-damaged",
            code="item_corrupt",
        )
