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

The occurrences of all words are listed and sorted (`occurrences.py`); one pass over
them measures the pairs. Few documents need that: `proximity_ranking.py`.

Costs: those of listing the occurrences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import F64Array, I64Array, U32Array, U64Array
from shard.query.proximity.occurrences import (
    DOCS_MAX,
    OccurrenceLists,
    WordTerms,
    field_of,
    list_occurrences,
    number_of,
    position_of,
    word_of,
)
from shard.query.scoring.bm25f import ScoredLists
from shard.query.terms.kept_terms_of_docs import NO_KEPT_TERMS, KeptTerms
from shard.segment.text.positions import POSITION_GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shard.query.terms.expansion import Expansion
    from shard.segment.text.text_index import TextIndex

WINDOW: Final = 8
"""Words further apart than this get no proximity score; less than the gap between values."""
assert WINDOW < POSITION_GAP
CHAIN_MAX: Final = 2
"""A pair that continues an adjacent pair counts twice: longer sequences are stronger evidence."""
RUN_PAIR_FACTOR: Final = 0.05
"""Factor on the weight of a pair of overlapping bigrams."""

_NO_TERMS: Final = np.zeros(0, np.uint32)
_NO_MASKS: Final = np.zeros(0, np.uint64)


@arguments
class Proximity(NamedTuple):
    """The inputs for scoring the proximity of a query's words in a segment.

    Attributes:
        lists: what the words' occurrences are read from.
        pair_weights: of each word and the next; empty: the query scores no proximity.
        unit: score of a pair at proximity 1 with weight 1, in units of 2^-32.
        most: more than any document's proximity score, in the same units.
    """

    lists: OccurrenceLists
    pair_weights: NDArray[np.float64]
    unit: float
    most: int


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
        doc = number_of(occurrences[i])
        pairs.best[:] = 0.0
        while i < size and number_of(occurrences[i]) == doc:
            field = field_of(occurrences[i])
            pairs.last[:] = -1
            while i < size and field_of(occurrences[i]) == field:
                _pair_up(pairs, word_of(occurrences[i]), position_of(occurrences[i]))
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
    for start in range(0, len(docs), DOCS_MAX):
        wanted = docs[start : start + DOCS_MAX]
        occurrences = list_occurrences(scored, proximity.lists, wanted)
        occurrences.sort()
        sums = np.empty(len(wanted), np.float64)
        _measure(occurrences, pair_weights, sums)
        for i in range(len(wanted)):
            bonus[start + i] = np.rint(sums[i] * unit)
    return bonus


def proximity_bound(pair_weights: NDArray[np.float64]) -> float:
    """Return the greatest sum of weight times proximity; the first pair cannot continue a chain."""
    return float(pair_weights[0] + CHAIN_MAX * pair_weights[1:].sum())


def make_proximity(
    index: TextIndex,
    expansions: Sequence[Expansion],
    pair_weights: NDArray[np.float64],
    unit: float,
    most: int,
    kept: KeptTerms = NO_KEPT_TERMS,
    kept_word: int = -1,
) -> Proximity:
    """Return the inputs for scoring proximity in one segment.

    Args:
        index: the segment's text structures.
        expansions: of the words, in order; at most `WORDS_MAX`.
        pair_weights: of each word and the next; empty: the query scores no proximity.
        unit: score of a pair at proximity 1 with weight 1, in units of 2^-32.
        most: more than any document's proximity score, in the same units.
        kept: the terms of one word by document.
        kept_word: its ordinal in the query; -1: of no word.
    """
    # A prefix list also covers better matches of its word: the same occurrences twice, no harm.
    read = [one.joined or one for one in expansions]
    counts = [len(one) for one in read]
    words = np.arange(len(read))
    if counts.count(1) != len(counts):
        words = np.repeat(words, counts)
    terms = WordTerms(
        np.concatenate([one.terms for one in read]) if read else _NO_TERMS,
        np.concatenate([one.masks for one in read]) if read else _NO_MASKS,
        words,
    )
    num_terms = len(index.vocabulary)
    lists = OccurrenceLists(index.positions, num_terms, index.prefix_ranges, terms, kept, kept_word)
    return Proximity(lists, pair_weights, unit, most)
