"""What a text search finds and scores, by comparing every document; queries to search for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec import structs

from common.analysis.accented_spellings import is_spelling
from common.analysis.field_classes import FieldClasses
from common.analysis.stemmer import stem
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import NUM_MATCH_KINDS, Clause, MatchKind, Phrase, Word
from common.term_weights import (
    CHOSEN_WORDS_MAX,
    CORRECTED_FORMS_MAX,
    WHOLE_FIELD_FACTOR,
    clause_weights,
    stem_factor,
)
from shard.query.bm25_statistics.segment_statistics import doc_freqs, field_statistics
from shard.query.proximity.proximity_scores import CHAIN_MAX, WINDOW
from shard.query.scoring.bm25f import FREQ_UNIT, NUM_TIERS, SCORE_UNIT, T_MAX, TIER_OF_KIND
from shard.query.text.prepared_query import proximity_pairs, tier_step, tiers_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from shard.segment.text import bitset_postings as dense_lists
from shard.segment.text import prefix_lists
from shard.segment.text.field_lengths import DECODED_LENGTHS, encode_length
from tests.shard.text_model import (
    ANALYZER,
    Lists,
    list_places,
    osa_distance,
)

K1 = 0.9


B = 0.6


ENGLISH = FieldClasses("english")


VOCABULARY = [
    "sea",
    "séa",
    "sèa",
    "seal",
    "tea",
    "the",
    "star",
    "stars",
    "stärs",
    "starred",
    "starship",
    "rain",
    "rains",
    "raining",
    "trains",
    "brain",
    "日本語",
    "本語",
    "station",
    "stations",
    "sattion",
    "mouse",
    "mice",
    "x1",
    "1star",
]


TEXTS = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join)


ITEMS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"a": TEXTS, "b": TEXTS | st.lists(TEXTS, max_size=2), "c": TEXTS}
    ),
    max_size=10,
)


def without_infix(word: Word) -> Word:
    return structs.replace(word, infix=0)


WORDS = st.builds(
    Word,
    text=st.sampled_from(
        [
            "sea",
            "star",
            "stars",
            "st",
            "rain",
            "raining",
            "station",
            "statoin",
            "trainstation",
            "mouse",
            "mice",
            "日本",
            "rain brain",
        ]
    ),
    is_prefix=st.booleans(),
    typos=st.integers(0, 2),
    synonyms=st.sampled_from([(), (), (("tea",),), (("rain", "brain"), ("seal",))]),
    is_stemmed=st.booleans(),
    spacings=st.sampled_from([(), (), (("brain",), ("sea", "tea")), (("star", "seal"),)]),
    is_completed=st.booleans(),
    infix=st.sampled_from([0, 0, 2]),
    corrections=st.sampled_from([(), (), ("station",), ("raining", "stars")]),
    correction_kind=st.sampled_from([MatchKind.TYPO_1, MatchKind.TYPO_2]).map(int),
    spellings=st.just(()),
    is_fragment=st.sampled_from([False, False, False, True]),
).map(lambda word: word if word.is_prefix else structs.replace(word, is_fragment=False))


SPELT = st.sampled_from([("sea", "séa"), ("sea", "séa sèa"), ("stars", "stärs"), ("st", "şt")])


WORDS = st.one_of(
    WORDS,
    WORDS,
    st.builds(
        lambda word, spelt: structs.replace(
            word,
            text=spelt[0],
            spellings=tuple(
                [(ANALYZER.spelling(typed) or "", typed) for typed in spelt[1].split()]
            ),
        ),
        WORDS,
        SPELT,
    ),
).map(lambda word: word if word.text.isascii() and len(word.text) > 2 else without_infix(word))


PHRASES = st.builds(
    Phrase,
    words=st.lists(
        st.sampled_from(["sea", "star", "rain", "station", "日本", "本語"]), min_size=2, max_size=3
    ).map(tuple),
    is_prefix=st.booleans(),
)


LISTS = st.builds(
    Lists,
    st.sampled_from((1, 3, prefix_lists.ENTRIES_MIN)),
    st.sampled_from((1, dense_lists.DOCS_MIN)),
    st.sampled_from((2, dense_lists.DOCS_PER_ENTRY_MAX)),
    st.booleans(),
    st.sampled_from((dense_lists.PREFIX_DOCS_PER_ENTRY_MAX, 16)),
)


CLAUSES: st.SearchStrategy[Clause] = st.one_of(WORDS, WORDS, PHRASES)


def match_kind(term: str, word: Word, language: str | None) -> MatchKind | None:
    """Return how a term matches a word, by the definition."""
    if is_spelling(term):
        return MatchKind.SPELLING if term in dict(word.spellings) else None
    if term == word.text and not word.is_fragment:
        return MatchKind.EXACT
    has_forms = word.is_stemmed and not word.is_fragment
    if has_forms and language and stem(term, language) == stem(word.text, language):
        is_begun = word.is_prefix and term.startswith(word.text)
        return MatchKind.COMPLETION_STEM if is_begun else MatchKind.STEM
    if (term,) in word.synonyms:
        return MatchKind.SYNONYM
    if (term,) in word.spacings:
        return MatchKind.SPACING
    if word.is_prefix and term.startswith(word.text):
        return MatchKind.COMPLETION if word.is_completed else MatchKind.PREFIX
    if word.typos:
        # No edit touches a digit, and the word has none.
        undigited = next((i for i, one in enumerate(term) if one.isdigit()), len(term))
        ends = range(0 if word.is_prefix else len(term), undigited + 1)
        distance = min((osa_distance(word.text, term[:end]) for end in ends), default=len(term))
        is_near = len(ends) > 0 and distance <= word.typos
        distance += term[0] != word.text[0]
        if is_near and distance <= 2:
            typo = (MatchKind.PREFIX, MatchKind.TYPO_1, MatchKind.TYPO_2)[distance]
            if not (word.infix and word.text in term):
                return best_typo(typo, term, word, language)
    return (
        MatchKind.INFIX
        if word.infix and word.text in term
        else best_typo(None, term, word, language)
    )


def best_typo(
    typo: MatchKind | None, term: str, word: Word, language: str | None
) -> MatchKind | None:
    """Return how a term matches a word that is mistyped: a typo, or a form of a correction."""
    if typo == MatchKind.TYPO_1 == word.correction_kind and word.corrections:
        typo = typo if term in word.corrections else MatchKind.TYPO_2
    corrections = word.corrections[:CORRECTED_FORMS_MAX]
    stems = {stem(correction, language) for correction in corrections} if language else set()
    if not stems or stem(term, language or "") not in stems:
        return typo
    form = MatchKind(word.correction_kind + 1)
    return form if typo is None else min(typo, form)


class NaiveSearch:
    """All documents as dictionaries; every query looks at everything."""

    def __init__(self, items: Sequence[Any], fields: Sequence[FieldWeight]) -> None:
        self.num_docs = len(items)
        self.places, self.lengths = list_places(items)
        self.fields = {field.path: field for field in fields}

    def gain(self, doc: int, path: str) -> float:
        field = self.fields.get(path)
        if field is None:
            return 0.0
        length = int(DECODED_LENGTHS[encode_length(self.lengths[doc, path], DECODED_LENGTHS)])
        norm = 1.0 - B + B * (length / field.average_length)
        return max(float(np.rint(field.weight / max(norm, 1e-3) * FREQ_UNIT)), 1.0)

    def phrase_freqs(self, phrase: Phrase) -> dict[tuple[int, str], int]:
        last = len(phrase.words) - 1
        starts: dict[tuple[int, str], set[int]] | None = None
        for i, word in enumerate(phrase.words):
            here: dict[tuple[int, str], set[int]] = {}
            for term, entries in self.places.items():
                is_match = term == word or (
                    phrase.is_prefix and i == last and term.startswith(word)
                )
                if is_match:
                    for entry, positions in entries.items():
                        here.setdefault(entry, set()).update(p - i for p in positions)
            starts = (
                here
                if starts is None
                else {entry: starts[entry] & here[entry] for entry in starts if entry in here}
            )
        return {entry: len(found) for entry, found in (starts or {}).items() if found}

    def score(
        self, clause: Clause, weights: Sequence[Sequence[float]]
    ) -> dict[int, tuple[int, int]]:
        """Return (score in units, tier) by document."""
        freqs: dict[int, dict[int, int]] = {}

        def add(doc: int, path: str, freq: int, ratio: float, tier: int) -> None:
            gain = self.gain(doc, path)
            if gain > 0:
                tiers = freqs.setdefault(doc, {})
                tiers[tier] = tiers.get(tier, 0) + int(freq * gain * ratio + 0.5)

        if isinstance(clause, Phrase):
            for (doc, path), freq in self.phrase_freqs(clause).items():
                add(doc, path, freq, 1.0, 0)
            tier_weights = [math.fsum(max(one) for one in weights)]
        else:
            own = weights[0]
            typed = max(own[: MatchKind.PREFIX])
            tier_weights = [
                max(w for w, of in zip(own, TIER_OF_KIND, strict=True) if of == tier)
                for tier in range(NUM_TIERS)
            ]
            for term, entries in self.places.items():
                kind = match_kind(term, clause, "english")
                if kind is not None and own[kind] > 0:
                    ratio = own[kind] / tier_weights[TIER_OF_KIND[kind]]
                    for (doc, path), positions in entries.items():
                        add(doc, path, len(positions), ratio, TIER_OF_KIND[kind])
            for synonym in dict.fromkeys([*clause.synonyms, *clause.spacings]):
                if len(synonym) > 1 and typed > 0:
                    weight = own[clause.phrase_kind(synonym)]
                    for (doc, path), freq in self.phrase_freqs(Phrase(synonym)).items():
                        add(doc, path, freq, weight / typed, 0)
        result = {}
        for doc, tiers in freqs.items():
            tier = min(tiers)
            t = float(min(max(tiers[tier], 1), T_MAX))
            value = tier_weights[tier] * SCORE_UNIT * (t / (t + K1 * FREQ_UNIT)) + 0.5
            result[doc] = (int(value), tier)
        return result

    def bonus(self, query: TextQuery, doc: int, tier: int) -> float:
        pairs = proximity_pairs(query)
        if pairs is None:
            return 0.0
        words, pair_weights = pairs
        best = [0.0] * len(pair_weights)
        for path in self.fields:
            places: list[set[int]] = [set() for _ in words]
            for term, entries in self.places.items():
                for i, word in enumerate(words):
                    kind = match_kind(term, word, "english")
                    if kind is not None and TIER_OF_KIND[kind] <= tier:
                        places[i].update(entries.get((doc, path), ()))

            def chain(word: int, place: int, places: list[set[int]] = places) -> int:
                if word == 0 or place - 1 not in places[word - 1]:
                    return 0
                return min(chain(word - 1, place - 1) + 1, CHAIN_MAX)

            for pair in range(len(pair_weights)):
                for place in places[pair + 1]:
                    before = [p for p in places[pair] if p < place]
                    if before:
                        distance = place - max(before)
                        if distance == 1:
                            best[pair] = max(best[pair], chain(pair + 1, place))
                        elif distance <= WINDOW:
                            best[pair] = max(best[pair], 1.0 / distance)
                for place in places[pair]:
                    if place in places[pair + 1]:
                        continue
                    before = [p for p in places[pair + 1] if p < place]
                    if before and place - max(before) <= WINDOW:
                        best[pair] = max(best[pair], 0.5 / (place - max(before)))
        total = 0.0
        for weight, proximity in zip(pair_weights.tolist(), best, strict=True):
            total += weight * proximity
        return float(np.rint(total * (query.proximity * SCORE_UNIT)) / SCORE_UNIT)

    def search(self, query: TextQuery) -> dict[int, float]:
        """Return the score of every document that matches."""
        scored = [self.score(one.clause, one.weights) for one in query.clauses]
        excluded: set[int] = set()
        for clause in query.excluded:
            count = len(clause.words) if isinstance(clause, Phrase) else 1
            excluded.update(self.score(clause, [[1.0] * NUM_MATCH_KINDS] * count))
        result = {}
        for doc in range(self.num_docs):
            matching = [one[doc] for one in scored if doc in one]
            offset = 0.0
            if query.is_leading and query.required < len(scored):
                leading = 0
                while leading < len(scored) and doc in scored[leading]:
                    leading += 1
                matching = matching[:leading]
                offset = tier_step(query) / SCORE_UNIT * (leading - 1)
            if len(matching) < query.required or doc in excluded:
                continue
            worst = tiers_of(query).worst
            if query.required >= len(scored):
                worst = max(tier for _, tier in matching)
                offset = tier_step(query) / SCORE_UNIT * num_steps(query, worst)
            total = sum(score for score, _ in matching) / SCORE_UNIT
            result[doc] = offset + (total + self.bonus(query, doc, worst))
            if self.has_whole_field(query, doc):
                greatest = math.fsum(self.greatest(one) for one in query.clauses)
                result[doc] += int(WHOLE_FIELD_FACTOR * greatest * SCORE_UNIT) / SCORE_UNIT
        return result

    @staticmethod
    def greatest(scored: ScoredClause) -> float:
        """Return the greatest score of a clause."""
        if isinstance(scored.clause, Phrase):
            return math.fsum(map(max, scored.weights))
        return max(scored.weights[0])

    def has_whole_field(self, query: TextQuery, doc: int) -> bool:
        """Return whether a searched field is the query's words, after an article or not."""
        return bool(query.whole) and any(
            self.lengths[doc, path] == len(words)
            for words in (query.whole, ("the", *query.whole))
            for (found, path) in self.phrase_freqs(Phrase(words))
            if found == doc and path in self.fields
        )


def num_steps(query: TextQuery, tier: int) -> int:
    """Return how many tiers that documents can have are below one, down to the query's worst."""
    tiers = set(range(NUM_TIERS))
    words = [one for one in query.clauses if isinstance(one.clause, Word)]
    if not any(any(one.weights[0][MatchKind.INFIX :][:1]) for one in words):
        tiers.remove(TIER_OF_KIND[MatchKind.INFIX])
    return sum(tier < one <= tiers_of(query).worst for one in tiers)


def statistics_of(views: Sequence[SegmentView], words: Sequence[Word]) -> list[list[int]]:
    return [
        np.sum([doc_freqs(view, word, ENGLISH) for view in views], 0).tolist() for word in words
    ]


def words_of(clause: Clause) -> list[Word]:
    if isinstance(clause, Word):
        return [clause]
    last = len(clause.words) - 1
    return [
        Word(word, clause.is_prefix and i == last, is_stemmed=False)
        for i, word in enumerate(clause.words)
    ]


def fields_of(
    views: Sequence[SegmentView], registries: Sequence[FieldRegistry], paths: Sequence[str]
) -> tuple[FieldWeight, ...]:
    sums: dict[str, list[int]] = {}
    for view, registry in zip(views, registries, strict=True):
        for number, (count, total) in field_statistics(view).items():
            own = sums.setdefault(registry.paths[number], [0, 0])
            own[0] += count
            own[1] += total
    return tuple(
        FieldWeight(path, 1.0 + i, total / count)
        for i, (path, (count, total)) in enumerate(sorted(sums.items()))
        if path in paths
    )


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    clauses = draw(st.lists(CLAUSES, min_size=1, max_size=3, unique=True))
    return {
        "clauses": clauses,
        "excluded": draw(st.lists(CLAUSES, max_size=1)),
        "required": draw(st.integers(1, len(clauses))),
        "is_leading": draw(st.booleans()),
        "paths": draw(st.sampled_from([("a", "b", "c"), ("a", "b"), ("c",)])),
        "proximity": draw(st.sampled_from([0.0, 0.2])),
        "whole": draw(st.sampled_from([(), ("sea",), ("star",), ("rain", "brain"), ("nope",)])),
        "num_words": draw(st.sampled_from([1, CHOSEN_WORDS_MAX, CHOSEN_WORDS_MAX + 1])),
    }


def all_of(*clauses: Clause, paths: tuple[str, ...]) -> dict[str, Any]:
    """Return what `queries` draws, for clauses that must all match."""
    return {
        "clauses": list(clauses),
        "excluded": [],
        "required": len(clauses),
        "is_leading": False,
        "paths": paths,
        "proximity": 0.2,
        "num_words": len(clauses),
    }


def make_query(
    shape: dict[str, Any],
    views: Sequence[SegmentView],
    registries: Sequence[FieldRegistry],
    num_docs: int,
) -> TextQuery:
    clauses = []
    of_stems = stem_factor(shape["num_words"])
    for clause in shape["clauses"]:
        freqs = statistics_of(views, words_of(clause))
        weights = tuple(clause_weights(one, num_docs, of_stems) for one in freqs)
        clauses.append(ScoredClause(clause, weights))
    return TextQuery(
        clauses=tuple(clauses),
        required=shape["required"],
        is_leading=shape["is_leading"],
        excluded=tuple(shape["excluded"]),
        fields=fields_of(views, registries, shape["paths"]),
        k1=K1,
        b=B,
        proximity=shape["proximity"],
        whole=shape.get("whole", ()),
    )
