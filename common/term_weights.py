"""Turns statistics into weights, by which the shards multiply.

The coordinator sums the statistics of all shards and calls these functions once per word and once
per set of fields, so that every shard scores with the same numbers.

The constants, and the defaults of k1, b and proximity, were chosen together on five judged sets
(scifact, cacm, vaswani, icecat-products, xquad; `benchmarks/relevance.py`): one setting for all,
which is the best one of no set. With half the proximity, for example, scifact loses what vaswani
gains in part (as typed, 2026-11-27):

                               nDCG@10           MAP
    proximity                0.2     0.1      0.2     0.1
    scifact                 0.7027  0.7002   0.6697  0.6635
    cacm                    0.4912  0.4956   0.3431  0.3438
    vaswani                 0.4404  0.4502   0.2938  0.2975
    icecat-products         0.6561  0.6574   0.6164  0.6163

Who types one or two words has chosen their forms (`case`, not cases); those of a sentence follow
from grammar. So other forms count less in queries of one or two words (as typed, 2026-11-28):

                           icecat-products     scifact    cacm      vaswani
    counting as much as    nDCG@10             nDCG@10    MAP       MAP
    in any query, 0.75     0.6561              0.7011     0.3431    0.2938
    0.4                    0.6604              0.7011     0.3426    0.2938
    0.4, but 0.75 where    0.6605              0.7011     0.3426    0.2938
    the last word may
    become that form

A field that only begins with the query gets nothing for it: on icecat-products any such bonus puts
accessories first ("Laptop sleeve …" for laptop), nDCG@10 0.658 to 0.652 at a twentieth of the
words' score and 0.641 at a fifth.

The last word of a query may still grow. If it is in the index as typed, the words that it begins
(its completions) rank near it; so they do if only another form of it is there, because otherwise
an item shown for `hard` would disappear at `hards`, whose stem many items have. Measured over
13,754 keystrokes of 600 titles (`benchmarks/search_as_you_type_relevance`, 150 of each set): the
share that drops a title from the first ten, in debian-packages and in all sets; nDCG@10 of
icecat-products as typed, and the share of it that remains with the last word cut:

    completions rank near
    a word that is in the index as typed                   0.59 %  0.35 %  0.6561  85.9 %
    or in another form (chosen)                            0.50 %  0.30 %  0.6561  86.8 %
    the same, weighed 0.75 instead of 0.6                  0.38 %  0.25 %  0.6534  87.3 %
    chosen, however many completions there are             0.21 %  0.25 %
    chosen, and fragments (chosen too: `is_fragment`)      0.29 %  0.26 %  0.6561

The last but one is slow: the completions of `c` would be scored in half of all documents. And
`usb c` would weigh its c no more than a connector. (No judged set has enough items for fragments.)

The texts of an array count together for length. If an array were as long as the mean of its texts,
items with many would win: a word's occurrences are summed over all of them, and short lengths raise
the weight of the field. Measured (both by the same length), with the factors 1, sqrt(n) and n on
the mean of n texts (n: as it is):

    cacm with authors, keywords and categories, MAP         0.353  0.364  0.375
    icecat-products with names and values of attributes,
    nDCG@10                                                 0.497  0.596  0.634
    debian-packages with tags and dependencies, share of
    300 whole names whose package comes first               0.883  0.963  0.977
    geonames-cities, alternate names of the 600 largest
    cities, mean reciprocal rank                            0.916  0.879  0.859
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind

K1_DEFAULT: Final = 0.8
B_DEFAULT: Final = 0.68
PROXIMITY_DEFAULT: Final = 0.2

IDF_SHIFT: Final = 0.25
IDF_SHARE_MIN: Final = 0.1
"""A word in most documents says less than its idf: subtract the shift, but keep a share."""
TYPED_SHARE_MIN: Final = 1 / 3
"""A word keeps at least this share of the idf of its typed form, however common its other forms:
most texts about films have `starring`, few `star`."""
OTHER_SPELLING_FACTOR: Final = 0.1
"""Weight of an occurrence of a word with other accents than typed, or none, relative to one as
typed. In Vietnamese, accents alone distinguish most words."""
STEM_FACTOR: Final = 0.75
"""Weight of another form of a word or of its correction (same stem), relative to that itself."""
CHOSEN_STEM_FACTOR: Final = 0.4
"""The same where the form of the word was chosen: in a query of at most `CHOSEN_WORDS_MAX` words,
unless the word is the last one and may still become the other form (COMPLETION_STEM)."""
CHOSEN_WORDS_MAX: Final = 2
"""In a query of more words, their forms follow from grammar."""
SYNONYM_FACTOR: Final = 0.1
"""Weight of an occurrence of a synonym, relative to one of the word: so small that the word in a
text of five times the average length scores more than the synonym in the shortest text."""
SPACING_FACTOR: Final = 0.5
"""Weight of an occurrence of the word written together or apart, relative to one as typed."""
COMPLETION_FACTOR: Final = 0.6
"""Weight of an occurrence of a whole word's completion, relative to one of the word itself."""
COMPLETIONS_MAX: Final = 20_000
"""What a whole word begins is ranked near the word itself if documents have it at most so often:
beyond that, a few letters are not a word yet, and scoring all would take long."""
WHOLE_FIELD_FACTOR: Final = 0.5
"""Bonus for a field that is the query, relative to the greatest score of its words."""
WHOLE_FIELDS_MAX: Final = 1_000
"""It is given if at most this many documents have such a field: a colour names nothing."""
CORRECTED_FORMS_MAX: Final = 3
"""Corrections of a mistyped word whose other forms match as well: the most frequent ones."""
CORRECTIONS_KNOWN_MAX: Final = 32
"""A word that may be a misspelling of more words than this has no corrections: it is too short."""
BEST_FACTORS: Final = (1.0, 0.8, 0.8, 0.8, 0.6)
"""Weight of a word by its best tier: typed, prefix, inside a word, one typo, two typos."""
LESSER_FACTOR: Final = 0.1
"""Weight of a tier when the index has a better one for the word."""
BREVITY_POWER: Final = 0.55
BREVITY_RATIO_MAX: Final = 100.0
"""A word says more in a short field (a title) than in a long one: see `weigh_fields`."""
FILL_MIN: Final = 1 / 3
"""Smooths the average length of a rare field: as if at least this share of documents had it."""


class WeighedField(NamedTuple):
    """A field as the shards score it."""

    weight: float
    average_length: float


def inverse_doc_freq(doc_freq: float, num_docs: int) -> float:
    """Return the rarity of a word: BM25's idf less a constant; positive for any frequency."""
    doc_freq = min(doc_freq, num_docs)
    idf = math.log1p((num_docs - doc_freq + 0.5) / (doc_freq + 0.5))
    return max(idf - IDF_SHIFT, idf * IDF_SHARE_MIN)


def stem_factor(num_words: int) -> float:
    """Return what another form of a word counts in a query of this many words, relative to it."""
    return CHOSEN_STEM_FACTOR if num_words <= CHOSEN_WORDS_MAX else STEM_FACTOR


def clause_weights(
    doc_freqs: Sequence[int], num_docs: int, of_stems: float = STEM_FACTOR
) -> tuple[float, ...]:
    """Return the weight of a word by `MatchKind`.

    A word has the rarity of its best tier in the index: terms as typed, their other forms,
    synonyms and spacings, else terms with this prefix, else those that have it inside, else typos.
    Lower tiers get a small part of that, however rare they are: a misspelt word must not outweigh a
    correct one for being rare. A word with typed accents has the rarity of that spelling, if the
    index has it. A word has at least a share of the rarity of its typed form alone, unless it
    may still become another (a last word that begins others).

    Args:
        doc_freqs: live documents by `MatchKind`, of all shards. Of the forms of corrections it only
            matters whether they match.
        num_docs: live documents of all shards.
        of_stems: `stem_factor` of the query.

    Returns:
        Weights by `MatchKind`; 0 for tiers that no document has. (The kinds up to COMPLETION are
        one tier: that all documents with another form also have the word itself may be due to
        fields that are not searched.)
    """
    spelt = doc_freqs[MatchKind.SPELLING]
    as_typed = spelt or doc_freqs[MatchKind.EXACT]
    frequent = (
        as_typed + sum(doc_freqs[MatchKind.COMPLETION_STEM : MatchKind.PREFIX]),
        doc_freqs[MatchKind.PREFIX],
        doc_freqs[MatchKind.INFIX],
        doc_freqs[MatchKind.TYPO_1],
        doc_freqs[MatchKind.TYPO_2],
    )
    present = [tier for tier, doc_freq in enumerate(frequent) if doc_freq > 0]
    if not present:
        return (0.0,) * NUM_MATCH_KINDS
    best = present[0]
    idf = inverse_doc_freq(frequent[best], num_docs)
    by_tier = [0.0] * len(frequent)
    for tier in present:
        by_tier[tier] = idf * BEST_FACTORS[best] * (1.0 if tier == best else LESSER_FACTOR)
    typed = by_tier[0]
    if as_typed and not doc_freqs[MatchKind.COMPLETION]:
        typed = max(typed, TYPED_SHARE_MIN * inverse_doc_freq(as_typed, num_docs))
    folded = OTHER_SPELLING_FACTOR if spelt else 1.0
    return (
        typed * folded,
        typed if spelt else 0.0,
        typed * STEM_FACTOR,
        typed * of_stems,
        typed * SYNONYM_FACTOR,
        typed * SPACING_FACTOR,
        typed * COMPLETION_FACTOR * folded,
        *by_tier[1:4],
        by_tier[3] * STEM_FACTOR if doc_freqs[MatchKind.TYPO_1_FORM] else 0.0,
        by_tier[4],
        by_tier[4] * STEM_FACTOR if doc_freqs[MatchKind.TYPO_2_FORM] else 0.0,
    )


def is_completed(word: str, doc_freqs: Sequence[int]) -> bool:
    """Return whether the words that a word begins rank near it: kind COMPLETION, not PREFIX.

    They do if the word, or another form of it, is in the index: items with `hard` must not hide the
    hardshell from someone who has typed `hards`. Numbers have no completions: 80 is not a beginning
    of 800.

    Args:
        word: folded.
        doc_freqs: live documents by `MatchKind`, of all shards; the completions are under PREFIX.
    """
    is_word = any((doc_freqs[MatchKind.EXACT], doc_freqs[MatchKind.STEM]))
    return is_word and not word[-1].isdigit() and 0 < doc_freqs[MatchKind.PREFIX] <= COMPLETIONS_MAX


def is_fragment(word: str, doc_freqs: Sequence[int], num_together: int) -> bool:
    """Return whether a last word, typed close to the one before it, is not a word yet.

    No item has both next to each other, and what begins with the word is too frequent to be ranked
    near it. Items with a stray `g` must not hide nfs-ganesha from someone who has typed `nfs-g`;
    `usb-c` is in many items as it is.

    Args:
        word: folded.
        doc_freqs: live documents by `MatchKind`, of all shards.
        num_together: live documents that have the word right after the one before it.
    """
    return (
        num_together == 0
        and doc_freqs[MatchKind.EXACT] > 0
        and doc_freqs[MatchKind.PREFIX] > COMPLETIONS_MAX
        and not word[-1].isdigit()
    )


def weigh_fields(
    statistics: Mapping[str, tuple[int, int]], weights: Mapping[str, float], num_docs: int
) -> dict[str, WeighedField]:
    """Return weight and average length of the fields that a query searches.

    The weight is the configured one times ``(longest / own) ** BREVITY_POWER``, where the lengths
    are the averages over the documents that have the field: a title is denser than a description,
    whatever the fields are called. The average length that texts are compared with is the one over
    *all* documents, so that a document which has a long field at all counts as long.

    Args:
        statistics: per path: live documents that have words in the field, sum of their lengths.
        weights: per searched path, as configured or requested.
        num_docs: live documents.

    Returns:
        By path, for the searched fields that have words.
    """
    own = {
        path: total / count
        for path, (count, total) in statistics.items()
        if path in weights and count > 0
    }
    longest = max(own.values(), default=1.0)
    return {
        path: WeighedField(
            weights[path] * min(longest / length, BREVITY_RATIO_MAX) ** BREVITY_POWER,
            statistics[path][1] / min(num_docs, statistics[path][0] / FILL_MIN),
        )
        for path, length in sorted(own.items())
    }
