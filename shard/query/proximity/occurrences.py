"""The occurrences of a query's words in some documents: where each stands, in reading order.

An occurrence packs into 64 bits what proximity compares, so that sorting numbers puts the
occurrences into reading order:

    63      44 43     28 27          6 5      0
    ┌─────────┬─────────┬─────────────┬────────┐
    │ number  │ field   │ position    │ 63-word│
    └─────────┴─────────┴─────────────┴────────┘

`number` is the document's position among those wanted. The word is inverted so that where two words
of the query share one position, the later one comes first: it must pair with the earlier word at
the position before, not at its own.

Costs: 50-100 ns for each wanted document and word; for a prefix of two letters 2 µs, unless it has
been searched before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.analysis.field_classes import ALL_CLASSES
from common.kernels.array_growth import grown
from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import U64, U8Array, U32Array, U64Array, int64, uint64
from shard.query.scoring.bm25f import ScoredLists
from shard.query.terms.kept_terms_of_docs import KeptTerms, first_extra
from shard.query.terms.prefix_terms_of_docs import ListedDocs, find_readings
from shard.segment.doc_sets import has_bit, rank_of
from shard.segment.text.positions import Positions, decode_varint
from shard.segment.text.postings import decode_entry
from shard.segment.text.postings_cursor import (
    advance_entry,
    after_entry,
    open_entries,
    open_positions,
    seek_positions,
)
from shard.segment.text.prefix_lists import PrefixRanges

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS_MAX: Final = 64
"""Words of a query that an occurrence can tell apart."""
DOCS_MAX: Final = 1 << 20
"""Documents that an occurrence can tell apart."""
_POSITION_MAX: Final = (1 << 22) - 1
_FOUND_MIN: Final = 256

_POSITION_SHIFT: Final = uint64(6)
_FIELD_SHIFT: Final = uint64(28)
_NUMBER_SHIFT: Final = uint64(44)
_ALL_CLASSES: Final = uint64(ALL_CLASSES)
_WORD_MASK: Final = uint64(WORDS_MAX - 1)


@arguments
class WordTerms(NamedTuple):
    """The terms and prefix lists of all words of a query.

    Attributes:
        terms: ordinals.
        masks: of the field classes in which each counts.
        words: by term, the ordinal of its word in the query.
    """

    terms: NDArray[np.uint32]
    masks: NDArray[np.uint64]
    words: NDArray[np.int64]


@arguments
class OccurrenceLists(NamedTuple):
    """What the occurrences of a query's words in a segment are read from.

    Attributes:
        positions: of the segment's words.
        num_terms: of its vocabulary; ordinals from here on are prefix lists.
        prefixes: the term ranges of these.
        read: the terms of the query's words.
        kept: the terms of one word by document.
        kept_word: its ordinal in the query; -1: of no word.
    """

    positions: Positions
    num_terms: int
    prefixes: PrefixRanges
    read: WordTerms
    kept: KeptTerms
    kept_word: int


@arguments
class _WordTerm(NamedTuple):
    """One term of a word."""

    term: int
    mask: U64
    word: int


@kernel(inline=True, allocates=False)
def number_of(occurrence: U64) -> int:
    """Return the number of the document that an occurrence is in."""
    return int64(occurrence >> _NUMBER_SHIFT)


@kernel(inline=True, allocates=False)
def field_of(occurrence: U64) -> int:
    """Return a number that tells apart the fields, of all documents, that occurrences are in."""
    return int64(occurrence >> _FIELD_SHIFT)


@kernel(inline=True, allocates=False)
def position_of(occurrence: U64) -> int:
    """Return the position of an occurrence in its field."""
    return int64(occurrence >> _POSITION_SHIFT & uint64(_POSITION_MAX))


@kernel(inline=True, allocates=False)
def word_of(occurrence: U64) -> int:
    """Return the ordinal in the query of the word that occurs."""
    return int64(_WORD_MASK - (occurrence & _WORD_MASK))


@kernel(allocates=False)
def _put_positions(
    positions: U8Array, cursor: int, freq: int, upper: U64, found: U64Array, num_found: int
) -> tuple[int, int]:
    """Write the occurrences of one entry; return the cursor after it and the new count."""
    position = int64(0)
    for _ in range(freq):
        delta, cursor = decode_varint(positions, cursor)
        position += delta
        found[num_found] = upper | uint64(min(position, _POSITION_MAX)) << _POSITION_SHIFT
        num_found += 1
    return cursor, num_found


@kernel(allocates=False)
def _add_occurrences(
    scored: ScoredLists,
    word_positions: Positions,
    of_word: _WordTerm,
    docs: ListedDocs,
    found: U64Array,
    num_found: int,
) -> int:
    """Append the occurrences of a term to `found`; return their number then.

    A negative result says how long `found` must at least be: grow it and call again.
    """
    lists, lengths, tf_norms, row_classes = scored
    term, mask, word = of_word
    expect_ascending(docs.docs)
    cursor = open_entries(term)
    at = open_positions()
    while True:
        cursor = advance_entry(lists, cursor, docs.docs)
        if cursor.size == 0:
            break
        field, freq = decode_entry(lists.postings, cursor.packing, cursor.entry)
        row = lengths.field_rows[field]
        # Only fields that the query searches, of a class in which the term counts.
        if tf_norms[row, 1] == 0.0 or not row_classes[row] & mask:
            continue
        if num_found + freq > len(found):
            return -(num_found + freq)
        upper = (
            uint64(docs.numbers[cursor.target]) << _NUMBER_SHIFT
            | uint64(field) << _FIELD_SHIFT
            | _WORD_MASK - uint64(word)
        )
        offset = seek_positions(lists, word_positions, at, cursor)
        offset, num_found = _put_positions(
            word_positions.positions, offset, freq, upper, found, num_found
        )
        at = after_entry(cursor, offset)
    return num_found


@kernel
def _with_occurrences(
    scored: ScoredLists,
    positions: Positions,
    of_word: _WordTerm,
    docs: ListedDocs,
    found: U64Array,
    num_found: int,
) -> tuple[U64Array, int]:
    """Append the occurrences of a term to `found`, in a longer array if it was full.

    Returns:
        (`found`, their number then).
    """
    while True:
        count = _add_occurrences(scored, positions, of_word, docs, found, num_found)
        if count >= 0:
            return found, count
        found = grown(found, -2 * count)


@kernel
def _list_kept(
    scored: ScoredLists,
    lists: OccurrenceLists,
    wanted: U32Array,
    found: U64Array,
    num_found: int,
) -> tuple[U64Array, int]:
    """Append the occurrences of the word whose terms are known by document."""
    kept, word = lists.kept, lists.kept_word
    numbers = np.arange(len(wanted))
    for i in range(len(wanted)):
        doc = int64(wanted[i])
        if not has_bit(kept.docs, wanted[i]):
            continue
        among = ListedDocs(wanted[i : i + 1], numbers[i : i + 1])
        at = int64(kept.firsts[rank_of(kept.docs, kept.ranks, wanted[i])])
        extra = first_extra(kept, doc)
        while True:
            term = _WordTerm(int64(kept.terms[at]), _ALL_CLASSES, word)
            found, num_found = _with_occurrences(
                scored, lists.positions, term, among, found, num_found
            )
            if extra == len(kept.extra_docs) or int64(kept.extra_docs[extra]) != doc:
                break
            at = int64(kept.extra_terms[extra])
            extra += 1
    return found, num_found


@kernel
def list_occurrences(scored: ScoredLists, lists: OccurrenceLists, wanted: U32Array) -> U64Array:
    """Return the occurrences, in documents, of the terms and prefix lists of all words; not sorted.

    Args:
        scored: the posting lists.
        lists: of the query's words, at most `WORDS_MAX`.
        wanted: documents, ascending; at most `DOCS_MAX`.
    """
    positions = lists.positions
    terms, masks, words = lists.read
    found = np.empty(_FOUND_MIN, np.uint64)
    num_found = int64(0)
    if lists.kept_word >= 0:
        found, num_found = _list_kept(scored, lists, wanted, found, num_found)
        others = words != lists.kept_word
        terms, masks, words = terms[others], masks[others], words[others]
    readings, num_readings, listed = find_readings(
        scored.lists, lists.num_terms, lists.prefixes, terms, wanted
    )
    read_terms, origins, starts, ends = readings
    docs, numbers = listed
    for i in range(num_readings):
        of_word = _WordTerm(read_terms[i], masks[origins[i]], words[origins[i]])
        among = ListedDocs(docs[starts[i] : ends[i]], numbers[starts[i] : ends[i]])
        found, num_found = _with_occurrences(scored, positions, of_word, among, found, num_found)
    return found[:num_found]
