"""Proximity: a higher score for documents in which the query's words are close together.

    query    green mile house
    pairs    (green, mile) (mile, house)              neighbours in the query
    text     the green mile, a prison house
                 1     2        4      5
    close    green → mile: 1 step, 1.0      mile → house: 3 steps, 1/3

A pair's proximity in a document is its best in any field: 1 / distance in query order, half of that
in reverse order, 0 beyond `WINDOW` words; an adjacent pair counts 2 if the pair before it ends
right there. A document's proximity score is the sum over the pairs of

    query.proximity · lesser weight of the two words · proximity of the pair

so an adjacent pair counts like another word of that fraction of its weight.

This score is bounded, so most documents need no look at their positions. The k-th best score
without proximity is a lower bound for the k-th best with it; a document that cannot reach that even
with the maximum stays out of the top k. Only the others' positions are read, and the order of the
top k is exact. Adding proximity to the documents in front first makes the threshold tight. Where a
word says little, as one letter that half of all documents have does, the maximum is so small that
few of these are left.

A half-typed word stands for thousands of terms, of which a document has few. These are found by
prefix lists, from prefix to longer prefix (`_narrow`), and only then read.

Costs: reading the positions of the documents that can still get there, 50-100 ns each and word; for
a prefix of two letters 2 µs each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.contracts import expect_ascending
from common.kernels.decorator import arguments, kernel
from common.kernels.growth import grown
from common.kernels.types import (
    U64,
    F64Array,
    I64Array,
    Rows,
    U8Array,
    U32Array,
    U64Array,
    int64,
    uint64,
)
from shard.query.bm25f import ScoredLists
from shard.query.score_selection import GREATEST, best_of, kth_greatest, pick
from shard.segment.positions import POSITION_GAP, Positions, decode_varint
from shard.segment.postings import PostingLists, decode_entry
from shard.segment.postings_cursor import (
    advance,
    advance_entry,
    after_entry,
    open_entries,
    open_positions,
    seek_positions,
)
from shard.segment.prefix_lists import PrefixRanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.expansion import Expansion
    from shard.segment.text_index import TextIndex

WINDOW: Final = 8
"""Words further apart than this get no proximity score; less than the gap between values."""
assert WINDOW < POSITION_GAP
CHAIN_MAX: Final = 2
"""A pair that continues an adjacent pair counts twice: longer sequences are stronger evidence."""
RUN_PAIR_FACTOR: Final = 0.05
"""Factor on the weight of a pair of overlapping bigrams."""
WORDS_MAX: Final = 64
"""Words of a query that proximity looks at (six bits of an occurrence)."""
_POSITION_MAX: Final = (1 << 22) - 1
_DOCS_MAX: Final = 1 << 20
"""Documents processed at a time (twenty bits of an occurrence)."""
_DEPTH_MAX: Final = 8
"""Depth of the stack of nested prefixes by which terms are found."""
_FIRST_FACTOR: Final = 4
"""Proximity is first added to this many times the requested documents,"""
_FIRST_MORE_MAX: Final = 384
"""but to at most this many more than requested."""
_FIRST_MIN: Final = 32

_NO_TERMS: Final = np.zeros(0, np.uint32)
_NO_LANGUAGES: Final = np.zeros(0, np.uint64)


@arguments
class _Listed(NamedTuple):
    """Ascending documents, and each one's position among those requested."""

    docs: NDArray[np.uint32]
    numbers: NDArray[np.int64]


@arguments
class _QueryTerms(NamedTuple):
    """The terms and prefix lists of all words of a query.

    Attributes:
        terms: ordinals.
        languages: masks of the languages in whose fields each counts.
        words: by term, the ordinal of its word in the query.
    """

    terms: NDArray[np.uint32]
    languages: NDArray[np.uint64]
    words: NDArray[np.int64]


@arguments
class Proximity(NamedTuple):
    """The inputs for scoring the proximity of a query's words in a segment.

    Attributes:
        positions: of the segment's words.
        num_terms: of its vocabulary; ordinals from here on are prefix lists.
        prefixes: the term ranges of these.
        read: the terms of the query's words.
        pair_weights: of each word and the next; empty: the query scores no proximity.
        unit: score of a pair at proximity 1 with weight 1, in units of 2^-32.
        most: more than any document's proximity score, in the same units.
    """

    positions: Positions
    num_terms: int
    prefixes: PrefixRanges
    read: _QueryTerms
    pair_weights: NDArray[np.float64]
    unit: float
    most: int


@arguments
class _QueryTerm(NamedTuple):
    """One term, or one prefix list, of a word."""

    term: int
    languages: np.uint64
    word: int


@kernel(allocates=False)
def _select_listed(lists: PostingLists, term: int, listed: _Listed, selected: _Listed) -> int:
    """Write those of the listed documents that a list has, and their numbers; return how many."""
    expect_ascending(listed.docs)
    num_found = 0
    cursor = open_entries(term)
    while True:
        cursor = advance(lists, cursor, listed.docs)
        if cursor.size == 0:
            break
        selected.docs[num_found] = cursor.doc
        selected.numbers[num_found] = listed.numbers[cursor.target]
        num_found += 1
    return num_found


@kernel(inline=True, allocates=False)
def _put_row(
    rows: Rows[np.int64], row: int, first: int, second: int, third: int, fourth: int
) -> None:
    """Write a row of four numbers."""
    rows[row, 0] = first
    rows[row, 1] = second
    rows[row, 2] = third
    rows[row, 3] = fourth


@kernel(allocates=False)
def _most_readings(num_terms: int, prefixes: PrefixRanges, terms: U32Array) -> int:
    """Return how many readings `_narrow` makes at most: of each vocabulary term one per query term.

    Which of them it makes depends on the documents.
    """
    most = 0
    for term in terms:
        if term < num_terms:
            most += 1
        else:
            number = term - num_terms
            most += int64(prefixes.prefix_lasts[number]) - int64(prefixes.prefix_firsts[number])
    return most


@kernel(inline=True, allocates=False)
def _put_readings(
    readings: Rows[np.int64],
    num_readings: int,
    terms_start: int,
    terms_end: int,
    i_term: int,
    docs_start: int,
    docs_end: int,
) -> int:
    """Append a reading for each of a range of terms; return how many readings there are then."""
    for term in range(terms_start, terms_end):
        _put_row(readings, num_readings, term, i_term, docs_start, docs_end)
        num_readings += 1
    return num_readings


@kernel(allocates=False)
def _close_prefixes(
    prefix_firsts: U32Array,
    until: int,
    opened: Rows[np.int64],
    depth: int,
    readings: Rows[np.int64],
    num_readings: int,
    i_term: int,
) -> tuple[int, int]:
    """Close the innermost open lists whose first term is after `until`; read what is left of them.

    Returns:
        (the depth, the number of readings) then.
    """
    while depth >= 0 and int64(prefix_firsts[opened[depth, 0]]) > until:
        num_readings = _put_readings(
            readings,
            num_readings,
            int64(prefix_firsts[opened[depth, 0]]),
            opened[depth, 1],
            i_term,
            opened[depth, 2],
            opened[depth, 3],
        )
        depth -= 1
    return depth, num_readings


@kernel(inline=True, allocates=False)
def _skip_inside(prefix_firsts: U32Array, number: int) -> int:
    """Return the next list below that is not inside of a list; -1 if there is none."""
    inside = number - 1
    while inside >= 0 and prefix_firsts[inside] >= prefix_firsts[number]:
        inside -= 1
    return inside


@kernel
def _narrow_prefix(
    lists: PostingLists,
    num_terms: int,
    prefixes: PrefixRanges,
    prefix: int,
    i_term: int,
    num_wanted: int,
    listed: _Listed,
    num_listed: int,
    readings: Rows[np.int64],
    num_readings: int,
) -> tuple[_Listed, int, int]:
    """Determine the documents in which to read each term of a prefix list.

    Args:
        lists: of the segment.
        num_terms: of its vocabulary.
        prefixes: the term ranges of all prefix lists.
        prefix: the number of this one.
        i_term: its position among the query's terms.
        num_wanted: how many of the listed documents, the first ones, are wanted.
        listed: documents; those of each prefix are appended.
        num_listed: how many there are.
        readings: output, with room for all.
        num_readings: how many there are.

    Returns:
        (`listed`, in longer arrays if these were full; `num_listed`, `num_readings`) then.
    """
    prefix_firsts, prefix_lasts = prefixes
    # Stack of open prefix lists, shortest prefix first. A row is: the list's number, the end of
    # those of its terms that have no reading yet, its documents [start, end) among the listed.
    opened = np.empty((_DEPTH_MAX, 4), np.int64)
    depth = int64(-1)
    # Lists are numbered so that one comes after those of longer prefixes inside it. Walking
    # numbers downwards therefore visits a prefix before its extensions (a preorder).
    number: Any = int64(prefix)
    while number >= 0 and prefix_firsts[number] >= prefix_firsts[prefix]:
        first = int64(prefix_firsts[number])
        depth, num_readings = _close_prefixes(
            prefix_firsts, first, opened, depth, readings, num_readings, i_term
        )
        if depth + 1 == _DEPTH_MAX:
            # Too deep to narrow any further: its terms are read with the shorter prefix.
            number -= 1
            continue
        start = int64(0)
        end = int64(num_wanted)
        if depth >= 0:
            start = opened[depth, 2]
            end = opened[depth, 3]
            # The enclosing list's terms after this prefix are in no longer one (those were visited
            # before): read them among all of the enclosing list's documents.
            num_readings = _put_readings(
                readings,
                num_readings,
                int64(prefix_lasts[number]),
                opened[depth, 1],
                i_term,
                start,
                end,
            )
            opened[depth, 1] = first
        # Keep those of the enclosing list's documents that this one has: at most as many.
        if num_listed + end - start > len(listed.docs):
            size = 2 * len(listed.docs) + end - start
            listed = _Listed(grown(listed.docs, size), grown(listed.numbers, size))
        count = _select_listed(
            lists,
            num_terms + number,
            _Listed(listed.docs[start:end], listed.numbers[start:end]),
            _Listed(listed.docs[num_listed:], listed.numbers[num_listed:]),
        )
        if count == 0:  # no document has the prefix, nor a longer one
            number = _skip_inside(prefix_firsts, number)
            continue
        depth += 1
        _put_row(opened, depth, number, int64(prefix_lasts[number]), num_listed, num_listed + count)
        num_listed += count
        number -= 1
    _, num_readings = _close_prefixes(
        prefix_firsts, -1, opened, depth, readings, num_readings, i_term
    )
    return listed, num_listed, num_readings


@kernel
def _narrow(
    lists: PostingLists, num_terms: int, prefixes: PrefixRanges, terms: U32Array, wanted: U32Array
) -> tuple[Rows[np.int64], _Listed]:
    """Determine the documents in which to read each term, for terms and prefix lists.

    A prefix has thousands of terms, so they are found from prefix to longer prefix, each looked up
    only among the documents in the list of the shorter one. What remains is a few documents for the
    terms of each of the longest prefixes, and none for most.

    Returns:
        (per reading: the term, its position in `terms`, its documents [start, end) among the
        listed; `_Listed`, with numbers in `wanted`).
    """
    readings = np.empty((_most_readings(num_terms, prefixes, terms), 4), np.int64)
    num_readings = int64(0)
    # All wanted documents are listed first, then those of each prefix.
    num_wanted = len(wanted)
    num_listed = int64(num_wanted)
    room = max(4 * num_wanted, 256)
    listed = _Listed(np.empty(room, np.uint32), np.empty(room, np.int64))
    for i in range(num_wanted):
        listed.docs[i] = wanted[i]
        listed.numbers[i] = i
    for i_term in range(len(terms)):
        term = int64(terms[i_term])
        if term < num_terms:
            num_readings = _put_readings(
                readings, num_readings, term, term + 1, i_term, 0, num_wanted
            )
        else:
            listed, num_listed, num_readings = _narrow_prefix(
                lists,
                num_terms,
                prefixes,
                term - num_terms,
                i_term,
                num_wanted,
                listed,
                num_listed,
                readings,
                num_readings,
            )
    return readings[:num_readings].copy(), listed


@kernel(allocates=False)
def _put_positions(
    positions: U8Array, cursor: int, freq: int, upper: U64, found: U64Array, num_found: int
) -> tuple[int, int]:
    """Write the occurrences of one entry; return the cursor after it and the new count."""
    position = int64(0)
    for _ in range(freq):
        delta, cursor = decode_varint(positions, cursor)
        position += delta
        position_bits = uint64(min(position, _POSITION_MAX)) << uint64(6)
        found[num_found] = upper | position_bits
        num_found += 1
    return cursor, num_found


@kernel(allocates=False)
def _add_occurrences(
    scored: ScoredLists,
    word_positions: Positions,
    of_word: _QueryTerm,
    listed: _Listed,
    found: U64Array,
    num_found: int,
) -> int:
    """Append the occurrences of a term to `found`; return their number then.

    A negative result says how long `found` must at least be: grow it and call again.
    """
    lists, lengths, tf_norms, row_languages = scored
    term, languages, word = of_word
    expect_ascending(listed.docs)
    cursor = open_entries(term)
    at = open_positions()
    while True:
        cursor = advance_entry(lists, cursor, listed.docs)
        if cursor.size == 0:
            break
        field, freq = decode_entry(lists.postings, cursor.packing, cursor.entry)
        row = lengths.field_rows[field]
        # Only fields that the query searches, in a language in which the term counts.
        if tf_norms[row, 1] == 0.0 or not row_languages[row] & languages:
            continue
        if num_found + freq > len(found):
            return -(num_found + freq)
        # Packed so that sorting groups by document, field, position (see `_list_occurrences`).
        upper = (
            uint64(listed.numbers[cursor.target]) << uint64(44)
            | uint64(field) << uint64(28)
            | uint64(63 - word)
        )
        offset = seek_positions(lists, word_positions, at, cursor)
        offset, num_found = _put_positions(
            word_positions.positions, offset, freq, upper, found, num_found
        )
        at = after_entry(cursor, offset)
    return num_found


@kernel
def _list_occurrences(scored: ScoredLists, proximity: Proximity, wanted: U32Array) -> U64Array:
    """Return the occurrences, in documents, of the terms and prefix lists of all words; not sorted.

    An occurrence packs: number of the document (20 bits), field (16), position (22), 63 - word (6).
    The word is inverted so that where two words of the query share one position, the later one
    comes first: it must pair with the earlier word at the position before, not at its own.
    """
    positions, num_terms, prefixes = proximity.positions, proximity.num_terms, proximity.prefixes
    terms, languages, words = proximity.read
    readings, listed = _narrow(scored.lists, num_terms, prefixes, terms, wanted)
    docs, numbers = listed
    found = np.empty(256, np.uint64)
    num_found = int64(0)
    for reading in range(len(readings)):
        i_term = readings[reading, 1]
        start = readings[reading, 2]
        end = readings[reading, 3]
        while True:  # until `found` is long enough
            count = _add_occurrences(
                scored,
                positions,
                _QueryTerm(readings[reading, 0], languages[i_term], words[i_term]),
                _Listed(docs[start:end], numbers[start:end]),
                found,
                num_found,
            )
            if count >= 0:
                break
            found = grown(found, -2 * count)
        num_found = count
    return found[:num_found]


@arguments
class _Pairs(NamedTuple):
    """What is known of a document's pairs, while its occurrences are read.

    Attributes:
        last: by word, its last position in the field; -1 if there is none yet.
        chain: by word, how many adjacent pairs in a row end at that position.
        best: by pair, that is by its first word, its best proximity in the document.
    """

    last: NDArray[np.int64]
    chain: NDArray[np.int64]
    best: NDArray[np.float64]


@kernel(inline=True, allocates=False)
def _pair_up(pairs: _Pairs, word: int, position: int) -> None:
    """Measure the distance of an occurrence from those before it of the neighbours in the query."""
    last, chain, best = pairs
    chain[word] = 0
    # In query order: adjacent pairs chain, others score by distance.
    if word > 0 and last[word - 1] >= 0:
        distance = position - last[word - 1]
        if distance == 1:
            chain[word] = min(chain[word - 1] + 1, CHAIN_MAX)
            best[word - 1] = max(best[word - 1], float(chain[word]))
        elif 0 < distance <= WINDOW:
            best[word - 1] = max(best[word - 1], 1.0 / distance)
    # In reverse order: half.
    if word + 1 < len(last) and last[word + 1] >= 0:
        distance = position - last[word + 1]
        if 0 < distance <= WINDOW:
            best[word] = max(best[word], 0.5 / distance)
    last[word] = position


@kernel
def _measure(occurrences: U64Array, pair_weights: F64Array, sums: F64Array) -> None:
    """Write each document's sum of pair weight times proximity, from sorted occurrences.

    ``pair_weights[w]`` is the weight of the pair of words w and w + 1.
    """
    num_words = len(pair_weights) + 1
    pairs = _Pairs(
        np.empty(num_words, np.int64),
        np.zeros(num_words, np.int64),
        np.zeros(num_words, np.float64),
    )
    sums[:] = 0.0
    i = 0
    size = len(occurrences)
    while i < size:
        doc = occurrences[i] >> uint64(44)
        pairs.best[:] = 0.0
        while i < size and occurrences[i] >> uint64(44) == doc:
            doc_field = occurrences[i] >> uint64(28)
            pairs.last[:] = -1
            while i < size and occurrences[i] >> uint64(28) == doc_field:
                word = 63 - int64(occurrences[i] & uint64(63))
                position = int64(occurrences[i] >> uint64(6) & uint64(_POSITION_MAX))
                _pair_up(pairs, word, position)
                i += 1
        for pair in range(num_words - 1):
            sums[doc] += pair_weights[pair] * pairs.best[pair]


@kernel
def proximity_scores(scored: ScoredLists, proximity: Proximity, docs: U32Array) -> I64Array:
    """Return the proximity score of ascending documents, in units of 2^-32."""
    pair_weights, unit = proximity.pair_weights, proximity.unit
    bonus = np.zeros(len(docs), np.int64)
    if len(pair_weights) == 0:
        return bonus
    for start in range(0, len(docs), _DOCS_MAX):
        wanted = docs[start : start + _DOCS_MAX]
        occurrences = _list_occurrences(scored, proximity, wanted)
        occurrences.sort()
        sums = np.empty(len(wanted), np.float64)
        _measure(occurrences, pair_weights, sums)
        for i in range(len(wanted)):
            bonus[start + i] = np.rint(sums[i] * unit)
    return bonus


@kernel(inline=True, allocates=False)
def num_first(k: int) -> int:
    """Return how many documents get their proximity first, to find the k best."""
    return max(min(_FIRST_FACTOR * k, k + _FIRST_MORE_MAX), _FIRST_MIN)


@kernel
def join(
    docs: U32Array, totals: I64Array, more_docs: U32Array, more_totals: I64Array
) -> tuple[U32Array, I64Array]:
    """Merge two ascending lists of documents, with their totals."""
    expect_ascending(docs)
    expect_ascending(more_docs)
    size = len(docs) + len(more_docs)
    all_docs = np.empty(size, np.uint32)
    all_totals = np.empty(size, np.int64)
    i = 0
    j = 0
    for at in range(size):
        if j == len(more_docs) or (i < len(docs) and docs[i] < more_docs[j]):
            all_docs[at] = docs[i]
            all_totals[at] = totals[i]
            i += 1
        else:
            all_docs[at] = more_docs[j]
            all_totals[at] = more_totals[j]
            j += 1
    return all_docs, all_totals


@kernel
def _in_reach(
    docs: U32Array, totals: I64Array, most: int, k: int
) -> tuple[U32Array, I64Array, int]:
    """Return the documents that proximity can bring among the k best, their scores, the least.

    A pair of which one word says little (a letter or two) leaves few.
    """
    least = kth_greatest(totals, k) - most
    near, near_totals = pick(docs, totals, least, GREATEST, totals)
    return near, near_totals, least


@kernel
def rank_front(
    scored: ScoredLists, proximity: Proximity, docs: U32Array, totals: I64Array, k: int
) -> tuple[U32Array, I64Array, int, int]:
    """Add proximity to the scored documents that lead without it.

    Args:
        scored: the posting lists.
        proximity: of the query's words.
        docs: ascending, `num_first(k)` at least.
        totals: their scores without proximity.
        k: how many of the best to return.

    Returns:
        The documents in front; their scores with proximity; the least score without proximity that
        is in front; the least score without proximity that can still reach the k best.
    """
    front = kth_greatest(totals, num_first(k))
    near, near_totals = pick(docs, totals, front, GREATEST, totals)
    near, near_totals, least = _in_reach(near, near_totals, proximity.most, k)
    front = max(front, least)
    near_totals += proximity_scores(scored, proximity, near)
    return near, near_totals, front, kth_greatest(near_totals, k) - proximity.most


@kernel
def rank_others(
    scored: ScoredLists,
    proximity: Proximity,
    near: U32Array,
    near_totals: I64Array,
    others: U32Array,
    other_totals: I64Array,
    k: int,
) -> tuple[U32Array, I64Array]:
    """Add proximity to the others too; return the best of all, with their scores."""
    other_totals += proximity_scores(scored, proximity, others)
    docs, totals = join(near, near_totals, others, other_totals)
    return best_of(docs, totals, k)


@kernel
def rank_by_proximity(
    scored: ScoredLists, proximity: Proximity, docs: U32Array, totals: I64Array, k: int
) -> tuple[U32Array, I64Array]:
    """Return the best documents, with their full scores.

    Args:
        scored: the posting lists.
        proximity: of the query's words.
        docs: ascending.
        totals: their scores without proximity.
        k: how many of the best to return, at least 1.

    Returns:
        Ascending documents with scores that include proximity: the k best, with all ties for the
        k-th place.
    """
    if len(proximity.pair_weights) == 0:
        return best_of(docs, totals, k)
    if len(docs) <= max(k, 2 * num_first(k)):
        if len(docs) > k:
            docs, totals, _ = _in_reach(docs, totals, proximity.most, k)
        return best_of(docs, totals + proximity_scores(scored, proximity, docs), k)
    near, near_totals, front, reach = rank_front(scored, proximity, docs, totals, k)
    others, other_totals = pick(docs, totals, reach, front - 1, totals)
    return rank_others(scored, proximity, near, near_totals, others, other_totals, k)


def proximity_bound(pair_weights: NDArray[np.float64]) -> float:
    """Return the greatest sum of weight times proximity; the first pair cannot continue a chain."""
    return float(pair_weights[0] + CHAIN_MAX * pair_weights[1:].sum())


def make_proximity(
    index: TextIndex,
    expansions: Sequence[Expansion],
    pair_weights: NDArray[np.float64],
    unit: float,
    most: int,
) -> Proximity:
    """Return the inputs for scoring proximity in one segment.

    Args:
        index: the segment's text structures.
        expansions: of the words, in order; at most `WORDS_MAX`.
        pair_weights: of each word and the next; empty: the query scores no proximity.
        unit: score of a pair at proximity 1 with weight 1, in units of 2^-32.
        most: more than any document's proximity score, in the same units.
    """
    # A prefix list also covers better matches of its word: the same occurrences twice, no harm.
    read = [one.joined or one for one in expansions]
    counts = [len(one) for one in read]
    words = np.arange(len(read))
    if counts.count(1) != len(counts):
        words = np.repeat(words, counts)
    return Proximity(
        index.positions,
        len(index.vocabulary),
        index.prefix_ranges,
        _QueryTerms(
            np.concatenate([one.terms for one in read]) if read else _NO_TERMS,
            np.concatenate([one.languages for one in read]) if read else _NO_LANGUAGES,
            words,
        ),
        pair_weights,
        unit,
        most,
    )
