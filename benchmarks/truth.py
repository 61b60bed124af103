"""The correct results, by brute force over the columns of the corpus: slow, obvious, exact.

A top ten is not unique where counts are equal, so a truth gives the ten greatest counts and every
value that has at least the tenth, with its count. Order by relevance differs between engines and
is not compared; totals, counts, values, the number of hits and sorted prices are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import Items, Shape, generate, words
from benchmarks.queries import ALPHABET, Query

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FacetTruth:
    """The ten greatest counts, and the count of each value that may be listed: of those that have
    at least the tenth count; where a selection puts others in front, of all.
    """

    counts: tuple[int, ...]
    values: dict[str, int]


@dataclass(frozen=True, slots=True)
class Truth:
    """The properties that every correct result of a query has."""

    total: int = 0
    facets: dict[str, FacetTruth] = field(default_factory=dict)
    prices: tuple[float, ...] = ()
    num_hits: int = 0

    @classmethod
    def from_json(cls, notes: dict[str, Any]) -> Truth:
        """Return what `dataclasses.asdict` wrote as JSON."""
        facets = {
            name: FacetTruth(tuple(facet["counts"]), facet["values"])
            for name, facet in notes["facets"].items()
        }
        return cls(notes["total"], facets, tuple(notes["prices"]), notes["num_hits"])


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of an engine."""

    total: int = 0
    facets: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    prices: list[float] = field(default_factory=list)


def differences(query: Query, truth: Truth, answer: Answer) -> list[str]:
    """Describe how a result is wrong."""
    if query.item_id is not None:
        return [] if answer.ids == [query.item_id] else [f"item {answer.ids}"]
    if answer.total != truth.total:
        return [f"total {answer.total} instead of {truth.total}"]
    found = []
    for name, expected in truth.facets.items():
        buckets = [(key, count) for key, count in answer.facets.get(name, []) if count]
        counts = tuple(sorted((count for _, count in buckets), reverse=True))
        if not query.is_disjunctive and counts != expected.counts:
            found.append(f"counts of {name}: {counts[:4]} instead of {expected.counts[:4]}")
        elif len(answer.facets.get(name, [])) < len(expected.counts) or any(
            expected.values.get(key) != count for key, count in buckets
        ):
            found.append(f"values of {name}")
    if query.sort and tuple(answer.prices) != truth.prices:
        found.append(f"order: {answer.prices[:3]} instead of {list(truth.prices[:3])}")
    if len(answer.ids) != truth.num_hits:
        found.append(f"{len(answer.ids)} hits instead of {truth.num_hits}")
    return found


class TypoRule(NamedTuple):
    """What an engine counts as one typo.

    Attributes:
        transposes: a swap of neighbouring letters, which else is two.
        keeps_first_letter: not another first letter, in a word that some item has.
    """

    transposes: bool = True
    keeps_first_letter: bool = False


class TruthTeller:
    """Answers queries over the first `num_items` items of a corpus."""

    def __init__(self, shape: Shape, num_items: int) -> None:
        self.shape = shape
        self.num_items = num_items
        self.vocabulary = words(shape)
        self.word_number = {word: i for i, word in enumerate(self.vocabulary)}
        self.parts: list[Items] = list(generate(shape, num_items))

    def answer(self, query: Query, rule: TypoRule | None = None) -> Truth:
        """Answer one query, by what an engine counts as one typo."""
        rule = rule or TypoRule()
        if query.item_id is not None:
            return Truth(total=1, num_hits=1)
        text = self._phrase_mask(query) if query.is_phrase else self._text_mask(query, rule)
        text = _all_of([text, *(self._between(n, *ends) for n, ends in query.ranges.items())])
        masks = {name: self._any_of(name, values) for name, values in query.filters.items()}
        hits = _all_of([text, *masks.values()])
        facets = {}
        for name in query.facets:
            within = hits
            if query.is_disjunctive and name in masks:
                within = _all_of([text, *(m for n, m in masks.items() if n != name)])
            facets[name] = self._count(name, within, lists_all=query.is_disjunctive)
        total = int(hits.sum())
        prices: tuple[float, ...] = ()
        start = (query.page - 1) * query.per_page
        if query.sort:
            price = self._column(query.sort)[hits]
            if query.distinct:
                price = _greatest(price, self._column(query.distinct)[hits])
                total = len(price)
            ordered = np.sort(price)[::-1][start : start + query.per_page]
            prices = tuple(ordered.tolist())
        num_hits = min(query.per_page, max(0, total - start))
        return Truth(total, facets, prices, num_hits)

    def _text_mask(self, query: Query, rule: TypoRule) -> Mask:
        """Return the items that have every word, in title or description."""
        mask = np.ones(self.num_items, bool)
        typed = query.text.split()
        for position, word in enumerate(typed):
            numbers = self._terms(
                word,
                is_prefix=query.is_prefix and position == len(typed) - 1,
                num_typos=query.num_typos,
                rule=rule,
            )
            mask &= self._has_any(numbers)
        return mask

    def _column(self, name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in self.parts])

    def _between(self, name: str, low: float, high: float) -> Mask:
        column = self._column(name)
        return np.asarray((column >= low) & (column <= high))

    def _phrase_mask(self, query: Query) -> Mask:
        """Return the items that have the words next to each other, in title or description."""
        numbers = [self.word_number[word] for word in query.text.split()]
        masks = []
        for part in self.parts:
            mask = np.zeros(len(part), bool)
            for column, ends in _texts(part):
                starts = np.arange(max(0, len(column) - len(numbers) + 1))
                for offset, number in enumerate(numbers):
                    starts = starts[column[starts + offset] == number]
                owners = np.searchsorted(ends, starts, "right")
                mask[owners[starts + len(numbers) <= ends[owners]]] = True
            masks.append(mask)
        return np.concatenate(masks)

    def _terms(self, word: str, *, is_prefix: bool, num_typos: int, rule: TypoRule) -> list[int]:
        """Return the numbers of the words that a typed word stands for."""
        if is_prefix:
            return [i for i, known in enumerate(self.vocabulary) if known.startswith(word)]
        meant = {word}
        if num_typos:
            near = edits(word, transposes=rule.transposes)
            known = self.word_number.get(word)
            if rule.keeps_first_letter and known is not None and self._has_any([known]).any():
                near = {other for other in near if other.startswith(word[0])}
            meant |= near
        return [self.word_number[w] for w in meant if w in self.word_number]

    def _has_any(self, numbers: Sequence[int]) -> Mask:
        wanted = np.zeros(len(self.vocabulary), bool)
        wanted[list(numbers)] = True
        masks = []
        for part in self.parts:
            mask = np.zeros(len(part), bool)
            for column, ends in _texts(part):
                mask[np.searchsorted(ends, np.flatnonzero(wanted[column]), "right")] = True
            masks.append(mask)
        return np.concatenate(masks)

    def _any_of(self, name: str, values: Iterable[str]) -> Mask:
        numbers = [i for i, value in enumerate(self.shape.values(name)) if value in set(values)]
        masks = []
        for part in self.parts:
            is_wanted = np.isin(getattr(part, name), numbers)
            if name == "tags":
                mask = np.zeros(len(part), bool)
                mask[np.searchsorted(part.tags_ends, np.flatnonzero(is_wanted), "right")] = True
                is_wanted = mask
            masks.append(is_wanted)
        return np.concatenate(masks)

    def _count(self, name: str, within: Mask, *, lists_all: bool) -> FacetTruth:
        names = self.shape.values(name)
        counts = np.zeros(len(names), np.int64)
        start = 0
        for part in self.parts:
            mask = within[start : start + len(part)]
            column = getattr(part, name)
            if name == "tags":
                mask = np.repeat(mask, np.diff(part.tags_ends, prepend=0))
            counts += np.bincount(column[mask], minlength=len(names))
            start += len(part)
        top = np.sort(counts)[::-1][:10]
        enough = 1 if lists_all else max(int(top[-1]), 1)
        return FacetTruth(
            counts=tuple(count for count in top.tolist() if count),
            values={names[i]: int(counts[i]) for i in np.flatnonzero(counts >= enough)},
        )


def _texts(part: Items) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
    """Return the word numbers of each text field, and where each item's end."""
    return (part.title, part.title_ends), (part.description, part.description_ends)


def _greatest(values: NDArray[Any], groups: NDArray[Any]) -> NDArray[Any]:
    """Return the greatest value of each group, in no particular order."""
    order = np.lexsort((-values, groups))
    is_first = np.ones(len(order), bool)
    is_first[1:] = np.diff(groups[order]) != 0
    return np.asarray(values[order][is_first])


def _all_of(masks: Sequence[Mask]) -> Mask:
    result = masks[0].copy()
    for mask in masks[1:]:
        result &= mask
    return result


def edits(word: str, *, transposes: bool) -> set[str]:
    """Return everything that is one edit away from a word."""
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    made = {left + right[1:] for left, right in cuts if right}
    made |= {left + letter + right[1:] for left, right in cuts if right for letter in ALPHABET}
    made |= {left + letter + right for left, right in cuts for letter in ALPHABET}
    if transposes:
        made |= {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    return made - {word}
