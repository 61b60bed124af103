"""Word codes: compresses the items of one index as sequences of words, and decodes them.

Items repeat words, but seldom sentences. So an index learns its words from its first items, and
each item becomes a sequence of their codes, which are short for frequent words: a canonical Huffman
code over words, in which a single space between two words needs no code (Moura, Navarro, Ziviani,
Baeza-Yates: Fast and flexible word searching on compressed text, ACM TOIS 18 (2), 2000). As with a
zstd dictionary, an item is read without its neighbours; it takes half to nine tenths of the bytes.

    item ─▶ tokens (`word_cutting`) ─▶ their codes (`word_dictionary`) ─▶ frame

    frame      | size of the item, 7 bits a byte, lowest first | codes, from the highest bit on |
               a token that the dictionary lacks: the code of an escape, its length in 6 bits, and
               the codes of its bytes

In memory a dictionary takes some 15 bytes a token for reading (`word_decoding`), and 20 more for
writing (`word_encoding`). `word_training` learns the words.

Costs: 25 ns to encode a token, 6 ns to decode one.

Worked example: tokens {"id": (1 bit), 7 (2 bits), } (2 bits): codes 0, 10, 11; the item {"id":7} is
08 | 0 10 11 000: bytes 08 58.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from shard.storage.item_compression.word_cutting import BYTE_CLASSES, TOKEN_BYTES_MAX
from shard.storage.item_compression.word_decoding import PADDING, decode_item, make_decoding
from shard.storage.item_compression.word_dictionary import read_dictionary
from shard.storage.item_compression.word_encoding import Encoding, encode_all, make_encoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PADDING_BYTES: Final = bytes(PADDING)
_SIZE_BYTES_MAX: Final = 8
"""Most bytes of the size at the beginning of a frame."""


class WordCodec:
    """The words of an index with their codes.

    Args:
        content: as returned by `word_training.train_words`.

    Raises:
        DamagedDictionary: the content is not that.

    Attributes:
        num_items: how many items the words were learnt from.
        decoding: the tables that `decode_item` takes.
    """

    def __init__(self, content: bytes) -> None:
        self._dictionary = read_dictionary(content)
        self.num_items = self._dictionary.num_items
        self._encoding: Encoding | None = None
        self.decoding = make_decoding(self._dictionary)

    def encode(
        self, payload: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Encode each span of `payload`; for one thread at a time.

        Returns:
            The frames, concatenated, and the size of each: 0 where the frame would not be smaller
            than the item.
        """
        if self._encoding is None:
            self._encoding = make_encoding(self._dictionary)
        frame_sizes = np.empty(len(starts), np.int64)
        out = np.empty(int(sizes.sum()), np.uint8)
        end = encode_all(payload, starts, sizes, BYTE_CLASSES, self._encoding, out, frame_sizes)
        return out[:end], frame_sizes

    def decode(self, frame: bytes) -> bytes | None:
        """Decode a frame; None if it is damaged. Any thread may call this.

        The items of a page are decoded together, by `shard.storage.item_batch_decoding`.
        """
        size = shift = at = 0
        for byte in frame[:_SIZE_BYTES_MAX]:
            size |= (byte & 127) << shift
            shift += 7
            at += 1
            if byte < 128:
                break
        else:
            return None
        if size > (len(frame) - at) * 8 * (TOKEN_BYTES_MAX + 1):
            return None
        source = np.frombuffer(bytearray(frame + _PADDING_BYTES), np.uint8)
        out = bytearray(size + PADDING)
        target = np.frombuffer(out, np.uint8)
        if not decode_item(source, 0, len(frame), self.decoding, target, 0):
            return None
        return bytes(memoryview(out)[:size])
