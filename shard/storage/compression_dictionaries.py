"""Compression dictionaries, with which each item is compressed on its own: words, or zstd's.

Items of one index repeat their keys, words and phrases. So a dictionary trained on the first items
compresses each later item on its own, and an item is read without its neighbours. There are two
kinds, and training keeps the one that compresses held-out items better: word codes (`word_codec`),
or zstd with a dictionary, for items that are not made of words. Rejected: blocks of many
items (with zstd, 16 items give another 10-20 %, but each read decompresses 16 and each delete
rewrites 16); larger zstd dictionaries (112 KiB: 4 %, and slower).

Bytes an item (zstd: level 2, dictionary of 32 KiB from 1,500 items; words: from 16,384 items at
most), on one core of a 2-core virtual machine:

    corpus                                bytes    zstd   words
    synthetic shop items, random words      513     210     120
    tate-artworks                           821     153     129
    debian-packages                       1,146     333     276
    icecat-products                       1,431     387     301
    wikipedia-movies                        551     206     142

    compress, decompress (shop items)               3.1 µs, 1.6 µs    3.4 µs, 1.9 µs

The zstd frames have neither a magic number nor a dictionary id (8 bytes an item): the codec byte of
the value names both (`lmdb_codecs`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from common.errors import InternalError
from shard.storage.item_batch_decoding import decode_values, read_values
from shard.storage.item_compression.word_codec import WordCodec
from shard.storage.item_compression.word_dictionary import DamagedDictionary
from shard.storage.item_compression.word_training import train_words
from shard.storage.lmdb_codecs import CODEC_RAW, CODEC_WORDS, ITEMS_AT_ONCE, as_bytes_array

COMPRESSION_LEVEL = 2
DICTIONARY_BYTES = 32 * 1024
TRAINING_ITEMS_MAX = 16_384
"""Most items that words are learnt from; zstd trains on the first `ZSTD_ITEMS_MAX` of them."""
ZSTD_ITEMS_MAX = 1_500
TRAINING_ITEM_BYTES_MAX = 8 * 1024
"""Training reads no more of a long item."""
TEST_SHARE = 8
"""One in this many items is held out of training, to compare the two kinds."""
RATIO_MIN = 1.15
"""A dictionary must compress the held-out items by this factor, or it is not worth its time."""
BATCH_ITEMS_MIN = 8
"""Fewer items are compressed one by one: setting up a batch costs as much as eight items."""


class ZstdDictionary:
    """A zstd dictionary of an index, with its compressor, and one decompressor for each thread.

    Args:
        number: 1 to 15, in the codec byte of the items compressed with it.
        content: the trained bytes.
    """

    def __init__(self, number: int, content: bytes) -> None:
        self.number = number
        self.content = content
        self._parameters = zstandard.ZstdCompressionParameters.from_level(
            COMPRESSION_LEVEL,
            window_log=17,
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_dict_id=False,
            write_content_size=True,
            write_checksum=False,
        )
        self._trained = zstandard.ZstdCompressionDict(content)
        self._trained.precompute_compress(compression_params=self._parameters)
        self._compressor = zstandard.ZstdCompressor(
            dict_data=self._trained, compression_params=self._parameters
        )
        self._decompressors = threading.local()

    @property
    def codec(self) -> int:
        """The codec byte of items compressed with this dictionary."""
        return CODEC_RAW | self.number

    @property
    def num_items(self) -> int:
        """How many items it counts as trained on: it is not trained again on more."""
        return TRAINING_ITEMS_MAX

    def compress(
        self, payload: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Compress each span of `payload`; for one thread at a time.

        Returns:
            The frames, concatenated, and the size of each.
        """
        if len(starts) < BATCH_ITEMS_MIN:
            view = memoryview(payload)  # type: ignore[arg-type]
            frames: Any = [
                self._compressor.compress(view[start : start + size])
                for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
            ]
        else:
            spans = np.empty((len(starts), 2), np.uint64)
            spans[:, 0] = starts
            spans[:, 1] = sizes
            batch = zstandard.BufferWithSegments(payload, spans.tobytes())  # type: ignore[arg-type]
            packed: Any = self._compressor.multi_compress_to_buffer(batch, threads=1)
            frames = list(packed)
        frame_sizes = np.fromiter(map(len, frames), np.int64, len(frames))
        parts = [
            np.frombuffer(b"".join(frames[first : first + ITEMS_AT_ONCE]), np.uint8)
            for first in range(0, len(frames), ITEMS_AT_ONCE)
        ]
        return np.concatenate(parts), frame_sizes

    def decompress(self, frame: bytes) -> bytes:
        """Decompress an item; any thread may call this.

        Raises:
            zstandard.ZstdError: the frame is damaged.
        """
        try:
            decompressor = self._decompressors.one
        except AttributeError:
            decompressor = self._decompressors.one = zstandard.ZstdDecompressor(
                dict_data=self._trained, format=zstandard.FORMAT_ZSTD1_MAGICLESS
            )
        restored: bytes = decompressor.decompress(frame)
        return restored


class WordsDictionary:
    """A dictionary of the words of an index.

    Args:
        number: 1 to 15, in the codec byte of the items compressed with it.
        content: the trained bytes.

    Raises:
        DamagedDictionary: the content is not what training returns.
    """

    def __init__(self, number: int, content: bytes) -> None:
        self.number = number
        self.content = content
        self._codes = WordCodec(content)

    @property
    def codec(self) -> int:
        """The codec byte of items compressed with this dictionary."""
        return CODEC_WORDS | self.number

    @property
    def num_items(self) -> int:
        """How many items it was trained on."""
        return self._codes.num_items

    def compress(
        self, payload: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Compress each span of `payload`; for one thread at a time.

        Returns:
            The frames, concatenated, and the size of each; 0 where it would not be smaller than the
            item.
        """
        return self._codes.encode(payload, starts, sizes)

    def decompress(self, frame: bytes) -> bytes | None:
        """Decompress an item; None if the frame is damaged. Any thread may call this."""
        return self._codes.decode(frame)

    def read(
        self, records: Sequence[int], values: Sequence[bytes | None], bytes_max: int
    ) -> list[bytes | None]:
        """Return the items of values; None for damaged ones, and those of other codecs.

        Any thread may call this.

        Raises:
            PayloadTooLarge: the items have more than `bytes_max` bytes.
        """
        return read_values(records, values, self.codec, self._codes.decoding, bytes_max)

    def read_joined(
        self, records: Sequence[int], values: Sequence[bytes | None]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
        """Return the items of values, one after the other, and where each ends.

        None if one is damaged, or of another codec. Any thread may call this.
        """
        items, ends, are_found = decode_values(
            records, values, self.codec, self._codes.decoding, sys.maxsize
        )
        return (np.frombuffer(items, np.uint8), ends) if are_found.all() else None


def train_dictionary(
    number: int, samples: Sequence[bytes], *, words_number: int
) -> ZstdDictionary | WordsDictionary | None:
    """Train both kinds on items, and return the better dictionary; None if neither pays off.

    Args:
        number: of the dictionary, if it is zstd's.
        samples: the items.
        words_number: of the dictionary, if it is one of words.

    Cost: about 5 ms for 1,500 items of 500 bytes, and 15 µs an item for their words; fixed
    parameters, no search for better ones (which takes seconds and gains 1-2 %).
    """
    cut = [bytes(sample[:TRAINING_ITEM_BYTES_MAX]) for sample in samples]
    tests = cut[::TEST_SHARE]
    learnt = [sample for i, sample in enumerate(cut) if i % TEST_SHARE]
    best: ZstdDictionary | WordsDictionary | None = None
    least = sum(map(len, tests)) / RATIO_MIN
    found = _train_words(words_number, learnt), _train_zstd(number, learnt[:ZSTD_ITEMS_MAX])
    for one in found:
        if one is not None and (size := _compressed_size(one, tests)) < least:
            best, least = one, size
    return best


def _spans(items: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[Any]]:
    """Return items in one piece of memory, where each begins, and its size."""
    sizes = np.fromiter(map(len, items), np.int64, len(items))
    return as_bytes_array(b"".join(items)), np.cumsum(sizes) - sizes, sizes


def _compressed_size(dictionary: ZstdDictionary | WordsDictionary, items: Sequence[bytes]) -> int:
    _, sizes = dictionary.compress(*_spans(items))
    return int(np.where(sizes == 0, [len(item) for item in items], sizes).sum())


def _train_words(number: int, samples: Sequence[bytes]) -> WordsDictionary | None:
    content = train_words(*_spans(samples))
    return None if content is None else WordsDictionary(number, content)


def _train_zstd(number: int, samples: Sequence[bytes]) -> ZstdDictionary | None:
    try:
        trained = zstandard.train_dictionary(
            DICTIONARY_BYTES, list(samples), k=200, d=8, f=18, accel=4, level=COMPRESSION_LEVEL
        )
    except zstandard.ZstdError:
        return None  # all items are alike, or nearly empty
    return ZstdDictionary(number, trained.as_bytes())


def open_words(number: int, content: bytes) -> WordsDictionary:
    """Read a dictionary of words.

    Raises:
        InternalError: item_corrupt, the content is damaged.
    """
    try:
        return WordsDictionary(number, content)
    except DamagedDictionary as error:
        raise InternalError(
            "a compression dictionary is damaged on disk: restore the index from a backup",
            code="item_corrupt",
        ) from error
