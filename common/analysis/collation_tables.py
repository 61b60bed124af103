"""What makes the keys of `collation`: the file of all orders, and the tables of one of them.

Each character, or sequence that counts as one (a *contraction* such as "ch" in Czech), has a list
of *elements*, uint32: primary << 16 | secondary << 7 | tertiary; 0 means none at that level. They
are found as the classes of characters are: a cell in a page of 256. Sequences are walked in a
trie of transitions, state << 32 | code point, sorted.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import zstandard

from common.analysis.code_point_table import in_pages
from common.analysis.collation_names import NUMERIC
from common.kernels.decorator import arguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

DATA_FILE: Final = Path(__file__).with_name("collation.bin")
STARTS_SEQUENCE: Final = 1 << 31


class LanguageData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a language differs from the root; see `CollationData`."""

    texts: str
    lengths: bytes
    elements: bytes
    first: list[tuple[int, int]]
    """Ranges of primary weights that come before all other letters, in this order."""
    is_upper_first: bool
    is_backwards: bool
    """Whether the last accent decides, not the first."""


class CollationData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The content of the file."""

    version: str
    texts: str
    """Characters and contractions of the root, one after the other."""
    lengths: bytes
    """Lengths of each: characters, and elements."""
    elements: bytes
    """uint32 each, little-endian."""
    letters: int
    """Primary weight of the first letter."""
    digits: list[int]
    """Primary weights of 0 to 9."""
    tertiaries: list[int]
    """ICU's tertiary weight with its case bits, by number."""
    secondary: int
    """The secondary weight of letters without accents."""
    languages: dict[str, LanguageData]


@lru_cache(1)
def _data() -> CollationData:
    content = zstandard.decompress(DATA_FILE.read_bytes())
    return msgspec.msgpack.decode(content, type=CollationData)


@arguments
class CollationTables(NamedTuple):
    """Elements by character and sequence, and how they count.

    Attributes:
        pages: page by point >> 8.
        cells: by page, 256 each: number of a list of elements, 0: none is known; with
            `STARTS_SEQUENCE` if the character may begin a sequence.
        starts: by list: where its elements begin, with a sentinel.
        elements: primary << 16 | secondary << 7 | tertiary.
        transitions: state << 32 | code point, ascending; a state is the index of the transition
            that leads to it, plus one; 0 at the start.
        accepted: by transition: number of the list of elements, 0: none ends there.
        digits: primary weights of 0 to 9.
        commons: the secondary and tertiary weights that are left out at the end of a key, or 0;
            then those of a plain digit.
        flags: 1: numeric, 2: secondary weights backwards.
    """

    pages: NDArray[np.uint16]
    cells: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    elements: NDArray[np.uint32]
    transitions: NDArray[np.uint64]
    accepted: NDArray[np.uint32]
    digits: NDArray[np.uint16]
    commons: NDArray[np.uint8]
    flags: NDArray[np.uint8]


def _rows(
    texts: str, lengths: bytes, elements: bytes
) -> tuple[list[str], NDArray[np.int64], NDArray[np.uint32]]:
    """Return the texts, the number of elements of each, and the elements."""
    sizes = np.frombuffer(lengths, np.uint8).astype(np.int64)
    ends = [0, *np.cumsum(sizes[::2]).tolist()]
    return (
        [texts[start:end] for start, end in pairwise(ends)],
        sizes[1::2],
        np.frombuffer(elements, "<u4").astype(np.uint32),
    )


def make_tables(collation: str) -> CollationTables:
    """Return the tables of an order."""
    data = _data()
    language = collation.removesuffix(NUMERIC)
    texts, counts, elements = _rows(data.texts, data.lengths, data.elements)
    own = data.languages.get(language)
    if own is not None and own.texts:
        own_texts, own_counts, own_elements = _rows(own.texts, own.lengths, own.elements)
        texts = texts + own_texts
        counts = np.concatenate([counts, own_counts])
        elements = np.concatenate([elements, own_elements])
    starts = np.zeros(len(texts) + 2, np.uint32)
    np.cumsum(counts, out=starts[2:])  # list 0 is empty
    primaries = _primary_numbers(data, own)
    tertiaries = _tertiary_numbers(data, elements, is_upper_first=bool(own and own.is_upper_first))
    digit = elements[starts[texts.index("0") + 1]]
    elements = (
        primaries[elements >> 16] << np.uint32(16)
        | elements & np.uint32(0xFF80)
        | tertiaries[elements & np.uint32(0x7F)]
    )
    # Later texts are the language's: they replace the root's.
    cells = np.zeros(0x110000, np.uint32)
    sequences: dict[str, int] = {}
    for row, text in enumerate(texts, 1):
        if len(text) == 1:
            cells[ord(text)] = row
        else:
            sequences[text] = row
    for text in sequences:
        cells[ord(text[0])] |= np.uint32(STARTS_SEQUENCE)
    transitions, accepted = _make_trie(sequences)
    plain = (data.secondary, int(tertiaries[int(digit) & 0x7F]))
    seconds = (elements >> np.uint32(7)) & np.uint32(0x1FF)
    thirds = elements & np.uint32(0x7F)
    # What is least can be left out at the end of a key: nothing comes before it but the end.
    least = (int(seconds[seconds > 0].min()), int(thirds[thirds > 0].min()))
    commons = (plain[0] * (least[0] == plain[0]), plain[1] * (least[1] == plain[1]), *plain)
    return CollationTables(
        *in_pages(cells),
        starts,
        elements,
        transitions,
        accepted,
        primaries[np.array(data.digits)].astype(np.uint16),
        np.array(commons, np.uint8),
        np.array([(language != collation) | bool(own and own.is_backwards) << 1], np.uint8),
    )


def _primary_numbers(data: CollationData, own: LanguageData | None) -> NDArray[np.uint32]:
    """Return the primary weight by that of the file: some scripts come before other letters."""
    numbers = np.arange(0x10000, dtype=np.uint32)
    if own is None or not own.first:
        return numbers
    first = np.concatenate([np.arange(low, high + 1) for low, high in own.first])
    others = np.setdiff1d(np.arange(data.letters, 0x10000), first)
    numbers[np.concatenate([first, others])] = np.arange(data.letters, 0x10000, dtype=np.uint32)
    return numbers


def _tertiary_numbers(
    data: CollationData, elements: NDArray[np.uint32], *, is_upper_first: bool
) -> NDArray[np.uint32]:
    """Return the tertiary weight by that of the file."""
    weights = np.array(data.tertiaries, np.int64)
    effective = weights & 0x3F3F
    if is_upper_first:
        effective = (weights & 0xFFFF) ^ 0xC000
        effective[weights == 0] = 0
    ranked = np.unique(effective)
    return np.searchsorted(ranked, effective).astype(np.uint32)


def _make_trie(sequences: dict[str, int]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the transitions and accepted lists of sequences; see `CollationTables`."""
    prefixes = sorted({text[:end] for text in sequences for end in range(1, len(text) + 1)})
    # Parents are numbered before their children: level by level, each sorted by (parent, point).
    state_of = {"": 0}
    transitions: list[int] = []
    accepted: list[int] = []
    level = 1
    while any(len(one) == level for one in prefixes):
        rows = sorted(
            (state_of[one[:-1]] << 32 | ord(one[-1]), one) for one in prefixes if len(one) == level
        )
        for transition, one in rows:
            transitions.append(transition)
            accepted.append(sequences.get(one, 0))
            state_of[one] = len(transitions)
        level += 1
    return np.array(transitions, np.uint64), np.array(accepted, np.uint32)
