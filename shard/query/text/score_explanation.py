"""Explanation: the parts of one hit's score, which add up to it exactly.

    {"score": 24.59, "parts": [
        {"kind": "tier",      "score": 16.0, "tier": "typed"},
        {"kind": "word",      "score": 8.21, "term": "shawshank", "match": "exact",
         "weight": 9.87, "frequency": 4.46, "occurrences": [
            {"term": "shawshank", "match": "exact", "field": "title",
             "frequency": 1, "length": 3, "gain": 4.46}]},
        {"kind": "proximity", "score": 0.38}]}

A word scores ``weight * frequency / (frequency + k1)``. Its frequency is the sum over its
occurrences of term frequency times gain, where the gain is the field's weight over its length norm
(see bm25f). As in the score, occurrences of lesser matches than the best one are left out.

Every part is a small multiple of 2^-32, so the sum is exact in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.array_growth import grown_rows
from common.kernels.decorator import kernel
from common.kernels.types import Rows, U32Array
from common.query_syntax_tree import Phrase, Word
from shard.query.scoring.bm25f import (
    FREQ_UNIT,
    SCORE_UNIT,
    TIER_OF_KIND,
    length_code,
    ratios_of_kinds,
    weights_of_tiers,
)
from shard.query.text.clause_evaluation import Evaluation
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.whole_field_matches import whole_docs
from shard.segment.doc_sets import bitset_of
from shard.segment.text.field_lengths import DECODED_LENGTHS
from shard.segment.text.postings import PostingLists, decode_entry
from shard.segment.text.postings_cursor import Wanted, advance_entry, open_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from common.protocol.messages import ScoredClause
    from shard.segment.field_registry import FieldRegistry
    from shard.segment.snapshot import SegmentView

OCCURRENCES_MAX: Final = 100
"""Occurrences listed per word; a prefix can match hundreds of terms of a long text."""

_MATCH_NAMES: Final = (
    "exact",
    "spelling",
    "completion stem",
    "stem",
    "synonym",
    "spacing",
    "completion",
    "prefix",
    "infix",
    "typo",
    "typo stem",
    "two typos",
    "two typos stem",
)
_TIERS: Final = np.array(TIER_OF_KIND, np.uint8)
_TIER_NAMES: Final = ("typed", "prefix", "infix", "typo", "two typos")


@kernel
def _list_entries(lists: PostingLists, terms: U32Array, wanted: U32Array) -> Rows[np.int64]:
    """Return one document's entries of the terms: rows (position in `terms`, field, frequency)."""
    found = np.empty((16, 3), np.int64)
    num_found = 0
    for i_term in range(len(terms)):
        cursor = open_entries(terms[i_term])
        while True:
            cursor = advance_entry(lists, cursor, wanted)
            if cursor.size == 0:
                break
            if num_found == len(found):
                found = grown_rows(found, 2 * num_found)
            field, freq = decode_entry(lists.postings, cursor.packing, cursor.entry)
            found[num_found, 0] = i_term
            found[num_found, 1] = field
            found[num_found, 2] = freq
            num_found += 1
    return found[:num_found]


def explain_score(view: SegmentView, prepared: PreparedQuery, doc: int) -> dict[str, Any]:
    """Return the parts of a matching document's score; see the module.

    Cost: for each term of the query, the block that can hold the document; some hundred
    microseconds for a prefix of many terms.
    """
    query, registry = prepared.query, prepared.registry
    evaluation = Evaluation(view.segment, prepared)
    candidate = np.array([doc], np.uint32)
    parts: list[dict[str, Any]] = []
    tier = 0
    leading = 0
    for i, scored in enumerate(query.clauses):
        found = evaluation.score(scored.clause, scored.weights, Wanted.among(candidate))
        if not len(found.docs) or (query.is_leading and leading < i):
            continue
        # With leading words, only the unbroken run of matching clauses from the first one on
        # counts.
        leading += 1
        tier = max(tier, int(found.tiers[0]))
        score = int(found.scores[0]) / SCORE_UNIT
        parts.append(_explain_clause(evaluation, scored, registry, doc, int(found.tiers[0]), score))
    if prepared.pairs is not None:
        # Proximity reads the words in the terms of the document's own tier, as ranking does.
        seen = evaluation.up_to(tier) if prepared.needs_all else evaluation
        bonus = int(seen.bonus(candidate)[0]) / SCORE_UNIT
        parts.append({"kind": "proximity", "score": bonus})
    only = bitset_of(candidate, view.segment.num_docs)
    if query.whole and len(whole_docs(view.segment, query.whole, evaluation.fields, only)):
        parts.append({"kind": "whole field", "score": prepared.whole_bonus / SCORE_UNIT})
    step = prepared.step / SCORE_UNIT
    if prepared.needs_all:
        if prepared.worst_tier > 0:
            steps = step * int(prepared.ranks[prepared.worst_tier] - prepared.ranks[tier])
            parts.insert(0, {"kind": "tier", "score": steps, "tier": _TIER_NAMES[tier]})
    elif query.is_leading:
        steps = step * (leading - 1)
        parts.insert(0, {"kind": "leading words", "score": steps, "words": leading})
    return {"score": sum(part["score"] for part in parts), "parts": parts}


def _explain_clause(
    evaluation: Evaluation,
    scored: ScoredClause,
    registry: FieldRegistry,
    doc: int,
    tier: int,
    score: float,
) -> dict[str, Any]:
    clause = scored.clause
    if isinstance(clause, Phrase):
        found = evaluation.find_phrase(clause, Wanted.among(np.array([doc], np.uint32)))
        text = " ".join(clause.words)
        occurrences = [
            _occurrence(evaluation, registry, doc, _ScoredEntry(text, "phrase", field, freq, 1.0))
            for field, freq in zip(found.fields.tolist(), found.freqs.tolist(), strict=True)
        ]
        return _part("phrase", text, "phrase", score, occurrences)
    text = clause.text
    return _part(
        "word",
        text,
        _TIER_NAMES[tier],
        score,
        _word_occurrences(evaluation, clause, scored.weights[0], registry, doc, tier),
        weight=weights_of_tiers(scored.weights[0])[tier],
    )


def _part(
    kind: str,
    text: str,
    match: str,
    score: float,
    occurrences: Sequence[dict[str, Any]],
    **more: float,
) -> dict[str, Any]:
    known = [one for one in occurrences if one["gain"] > 0]
    # By path, because field numbers depend on items that a key may not see.
    known.sort(key=lambda one: one["field"])
    return {
        "kind": kind,
        "term": text,
        "field": ", ".join(dict.fromkeys(one["field"] for one in known)),
        "match": match,
        "score": score,
        **more,
        "frequency": sum(one["frequency"] * one["gain"] for one in known),
        "occurrences": known[:OCCURRENCES_MAX],
    }


def _word_occurrences(
    evaluation: Evaluation,
    word: Word,
    weights: Sequence[float],
    registry: FieldRegistry,
    doc: int,
    tier: int,
) -> list[dict[str, Any]]:
    """Return the occurrences, in one document, of a word's terms of one tier."""
    expansion = evaluation.expansion(word)
    index = evaluation.index
    of_tiers = weights_of_tiers(weights)
    ratios = ratios_of_kinds(weights, of_tiers)
    as_typed = dict(word.spellings)
    # Only the terms of the document's best tier have been scored.
    is_wanted = _TIERS[expansion.kinds] == tier
    terms = expansion.terms[is_wanted]
    kinds = expansion.kinds[is_wanted].tolist()
    masks = expansion.masks[is_wanted]
    occurrences = []
    found = _list_entries(index.lists, terms, np.array([doc], np.uint32))
    for number, field, freq in found.tolist():
        row = index.field_lengths.field_rows[field]
        # The term does not count in a field of another language.
        if not masks[number] & evaluation.fields.lists.row_classes[row]:
            continue
        kind = kinds[number]
        if weights[kind] > 0:
            term = index.vocabulary.term(int(terms[number]))
            entry = _ScoredEntry(
                as_typed.get(term, term), _MATCH_NAMES[kind], field, freq, ratios[kind]
            )
            occurrences.append(_occurrence(evaluation, registry, doc, entry))
    if tier == 0 and of_tiers[0] > 0:
        # Multi-word synonyms and spacings count in tier 0, with the weight of their kind.
        for phrase in expansion.phrases:
            phrase_kind = word.phrase_kind(phrase)
            name, ratio = _MATCH_NAMES[phrase_kind], ratios[phrase_kind]
            wanted = Wanted.among(np.array([doc], np.uint32))
            entries = evaluation.find_phrase(Phrase(phrase), wanted)
            for field, freq in zip(entries.fields.tolist(), entries.freqs.tolist(), strict=True):
                entry = _ScoredEntry(" ".join(phrase), name, field, freq, ratio)
                occurrences.append(_occurrence(evaluation, registry, doc, entry))
    return occurrences


class _ScoredEntry(NamedTuple):
    """An entry of a document that counts for a word.

    Attributes:
        term: the term, or the words of a phrase.
        match: how it matches the word.
        field: number of the field.
        freq: how often it occurs there.
        ratio: how much of the word's weight its kind of match is worth.
    """

    term: str
    match: str
    field: int
    freq: int
    ratio: float


def _occurrence(
    evaluation: Evaluation, registry: FieldRegistry, doc: int, entry: _ScoredEntry
) -> dict[str, Any]:
    """Return an entry of a document as an explanation shows it."""
    scored = evaluation.fields.lists
    row = int(scored.lengths.field_rows[entry.field])
    code = int(length_code(scored.lengths, row, doc))
    return {
        "term": entry.term,
        "match": entry.match,
        "field": registry.paths[entry.field],
        "frequency": entry.freq,
        "length": int(DECODED_LENGTHS[code]),
        "gain": float(scored.tf_norms[row, code]) * entry.ratio / FREQ_UNIT,
    }
