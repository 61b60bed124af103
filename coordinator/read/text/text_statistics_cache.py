"""Text statistics of an index: summed over all live documents, fetched once per horizon.

Document frequencies, field lengths and document counts add up over shards. So a score depends only
on the live documents, not on the number of shards or the layout of their segments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from common.deadline import Deadline
from common.protocol.messages import FieldWeight, StatisticsRequest, StatisticsResponse, TextQuery
from common.protocol.methods import STATISTICS
from common.query_syntax_tree import Filter, Word
from common.search_option_parsers import SearchableField
from coordinator.catalog.catalog import Index
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.cluster.fan_out import gather_partial
from coordinator.parameters.parsed_parameters import QueryKey
from coordinator.read.text.fields_reported_by_shards import ExistingFields
from coordinator.read.text.query_parser import ParsedQuery, words_of
from coordinator.read.text.query_pieces import Words
from coordinator.read.text.word_corrections import Corrections, choose_corrections

_QUERY_BYTES: Final = 1_000
_WORD_BYTES: Final = 700
_SPACING_BYTES: Final = 250
"""Estimated size of a query, and of each of its words or of a word's document frequencies; of the
document frequency of a spacing."""
FIELD_CHOICES_REMEMBERED_MAX: Final = 64
"""Cached choices of `search_fields` per index and horizon."""


@dataclass(slots=True)
class ScoredQuery:
    """A query with weights; without a `query`, nothing is restricted."""

    query: TextQuery | None
    ignored_words: list[str]
    """Words that occur in no document, dropped because another word is known."""
    num_words_cut: int = 0
    """Words dropped from the end of the query because it has too many."""
    dropped_words: Words = ()
    """Function words of the query that items need not have."""
    assumption: Assumption | None = None
    """The assumption on which the weights rest, if there is one."""
    has_made_up_weights: bool = False
    """Whether scores mean nothing. A word that occurs nowhere is not ignored then."""


class Assumption(NamedTuple):
    """The assumption that no document has the terms missing from the statistics."""

    parsed: ParsedQuery
    statistics: Statistics
    keys: StatisticsKeys
    request: StatisticsRequest


class StatisticsKeys(NamedTuple):
    """The statistics to request from the shards."""

    words: Sequence[Word]
    spacings: Sequence[Words]
    """And spellings with accents."""
    wholes: Sequence[Words]
    """Texts that a field may consist of."""
    cuts: Sequence[str]
    """Words that may be written as two."""
    needs_fields: bool

    @property
    def num_bytes(self) -> int:
        """Estimated size of the answer, cached."""
        num_spacings = len(self.spacings) + len(self.wholes) + len(self.cuts)
        return _WORD_BYTES * len(self.words) + _SPACING_BYTES * num_spacings


@dataclass(slots=True)
class Statistics:
    """Sums over all shards, of the documents live at one horizon."""

    horizon: int
    num_docs: int = -1
    """-1: not fetched yet."""
    fields: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By path: the number of documents with words in the field, and the number of these words."""
    doc_freqs: dict[Word, tuple[int, ...]] = field(default_factory=dict)
    """By `MatchKind`."""
    corrections: dict[Word, Corrections] = field(default_factory=dict)
    """Of words that are nowhere in the index."""
    spacing_freqs: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Documents that have a word, or adjacent words."""
    whole_freqs: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Documents with a field that consists of a text's words."""
    num_items_with: dict[Words, int] = field(default_factory=dict)
    """By folded words: items that have all of them, in any field."""
    cut_freqs: dict[str, dict[int, int]] = field(default_factory=dict)
    """By word, and by the length of its first part: documents that have it as two words."""
    field_weights: dict[tuple[SearchableField, ...] | None, tuple[FieldWeight, ...]] = field(
        default_factory=dict
    )
    """Weights of the fields that a query searches, by the fields it names."""
    queries: dict[QueryKey, ScoredQuery] = field(default_factory=dict)
    """Queries scored before: users type the same words."""

    def missing(self, parsed: ParsedQuery) -> StatisticsKeys | None:
        """Return the statistics missing for the weights of a query, or None."""
        spacings: Iterable[Words] = ()
        if parsed.spacings:
            spacings = dict.fromkeys([spacing.words for spacing in parsed.spacings])
        if parsed.spellings:
            spelt = [(term,) for _, terms in parsed.spellings for term, _ in terms]
            spacings = [*spacings, *dict.fromkeys(spelt)]
        if parsed.fragment:
            spacings = dict.fromkeys([*spacings, parsed.fragment])
        missing = StatisticsKeys(
            [word for word in words_of(parsed.clauses) if word not in self.doc_freqs],
            [one for one in spacings if one not in self.spacing_freqs],
            [parsed.whole] if parsed.whole and parsed.whole not in self.whole_freqs else [],
            [word for word in parsed.cuttable if word not in self.cut_freqs],
            needs_fields=self.num_docs < 0,
        )
        return missing if any(missing) else None

    def add_up(self, keys: StatisticsKeys, parts: Sequence[StatisticsResponse]) -> None:
        """Add up the shards' statistics."""
        if keys.needs_fields:
            self.num_docs = sum(part.num_docs for part in parts)
            fields: dict[str, tuple[int, int]] = {}
            for part in parts:
                for one in part.fields:
                    num_docs, length = fields.get(one.path, (0, 0))
                    fields[one.path] = (num_docs + one.num_docs, length + one.total_length)
            self.fields = fields
            self.field_weights.clear()
        for i, word in enumerate(keys.words):
            freqs = [part.doc_freqs[i] for part in parts]
            self.doc_freqs[word] = tuple(map(sum, zip(*freqs, strict=True)))
            corrections = choose_corrections(word, self.doc_freqs[word], _near_words(parts, i))
            if corrections is not None:
                self.corrections[word] = corrections
        for i, spacing in enumerate(keys.spacings):
            self.spacing_freqs[spacing] = sum([part.spacing_freqs[i] for part in parts])
        for i, whole in enumerate(keys.wholes):
            self.whole_freqs[whole] = sum([part.whole_freqs[i] for part in parts])
        for i, cut_word in enumerate(keys.cuts):
            sums: dict[int, int] = {}
            for part in parts:
                for cut, freq in part.cut_freqs[i]:
                    sums[cut] = sums.get(cut, 0) + freq
            self.cut_freqs[cut_word] = sums


def _near_words(parts: Sequence[StatisticsResponse], number: int) -> Counter[tuple[int, str]]:
    """Add up the documents of the words near one word of a request, by kind and term."""
    sums: Counter[tuple[int, str]] = Counter()
    for part in parts:
        for kind, term, freq in part.near_words[number] if part.near_words else ():
            sums[kind, term] += freq
    return sums


def _bytes_of_query(scored: ScoredQuery, text: str) -> int:
    """Estimate the size of a cached query."""
    num_words = len(scored.ignored_words)
    if scored.query is not None:
        num_words += len(words_of([one.clause for one in scored.query.clauses]))
        num_words += len(words_of(scored.query.excluded))
    return _QUERY_BYTES + num_words * _WORD_BYTES + 4 * len(text)


class StatisticsCache:
    """The statistics of one index; missing ones are fetched from the shards.

    Args:
        cluster: the shards to ask.
        key_filter: filter of the API key that searches. Only items that pass it are counted, so no
            response reveals the words of the others.

    Attributes:
        existing_fields: fields with scalar values of any item, and with texts of those that count.
    """

    def __init__(
        self, cluster: Cluster, budget: CacheBudget, key_filter: Filter | None = None
    ) -> None:
        self._cluster = cluster
        self._budget = budget
        self._filters = () if key_filter is None else (key_filter,)
        self._newest = Statistics(-1)
        self.existing_fields = ExistingFields()

    def known_query(self, key: QueryKey, horizon: int) -> ScoredQuery | None:
        """Return the query if it has been scored at this horizon."""
        return self._newest.queries.get(key) if self._newest.horizon == horizon else None

    def remember_query(self, key: QueryKey, statistics: Statistics, scored: ScoredQuery) -> None:
        """Cache a scored query, if the statistics it was scored with are still the newest."""
        if statistics is self._newest:
            statistics.queries[key] = scored
            self._budget.take(self, _bytes_of_query(scored, key[0]))

    def forget(self) -> None:
        """Drop everything; running searches keep the objects that they hold."""
        self._newest = Statistics(-1)
        self._budget.drop(self)

    def at(self, horizon: int) -> Statistics:
        """Return the statistics known at a horizon."""
        statistics = self._newest
        if statistics.horizon != horizon:
            # A new object: searches that are waiting for a response keep theirs.
            statistics = Statistics(horizon)
            if horizon >= self._newest.horizon:
                self.forget()
                self._newest = statistics
        return statistics

    def add_up(
        self,
        statistics: Statistics,
        keys: StatisticsKeys,
        parts: Sequence[StatisticsResponse],
    ) -> None:
        """Add up the shards' statistics."""
        statistics.add_up(keys, parts)
        if statistics is self._newest:
            self._budget.take(self, keys.num_bytes)

    def remember_counts(self, statistics: Statistics, counts: Mapping[Words, int]) -> None:
        """Cache how many items have all of some words."""
        if statistics is self._newest:
            statistics.num_items_with.update(counts)
            self._budget.take(self, _SPACING_BYTES * len(counts))

    def request(
        self, index: Index, keys: StatisticsKeys, statistics: Statistics
    ) -> StatisticsRequest:
        """Return the request that every shard gets."""
        return StatisticsRequest(
            index.number,
            statistics.horizon,
            index.revision,
            tuple(keys.words),
            self._filters,
            keys.needs_fields,
            tuple(keys.spacings),
            tuple(keys.wholes),
            tuple(keys.cuts),
        )

    def may_assume(self, keys: StatisticsKeys) -> bool:
        """Return whether to assume that unknown spacings are nowhere in the index.

        Few queries have words that are also written together or apart, or are a whole field. The
        shards find out while they search, which saves a round trip.
        """
        return not keys.words and not keys.needs_fields and not self._filters

    async def of_query(
        self,
        index: Index,
        parsed: ParsedQuery,
        horizon: int,
        deadline: Deadline,
        *,
        is_partial: bool,
    ) -> Statistics:
        """Return statistics that cover a query's words, their spacings and the whole text."""
        statistics = self.at(horizon)
        missing = statistics.missing(parsed)
        if missing is None:
            return statistics
        return await self.completed(
            index, parsed, statistics, missing, deadline, is_partial=is_partial
        )

    async def completed(
        self,
        index: Index,
        parsed: ParsedQuery,
        statistics: Statistics,
        missing: StatisticsKeys,
        deadline: Deadline,
        *,
        is_partial: bool,
    ) -> Statistics:
        """Return statistics completed for a query.

        If a shard is down and the search allows partial results, the remaining shards' statistics
        score it. Those sums are not cached, since the next search may find all shards again. A
        shard may also fail during the call.
        """
        parts: list[StatisticsResponse] = []
        if not (is_partial and self._cluster.failed_shards()):
            parts = await self._ask(index, missing, statistics, deadline, is_partial=is_partial)
        if len(parts) < self._cluster.num_shards:
            statistics = Statistics(statistics.horizon)
            all_keys = statistics.missing(parsed)
            assert all_keys is not None, "nothing is known yet"
            missing = all_keys
            parts = await self._ask(index, missing, statistics, deadline, is_partial=is_partial)
        for part in parts:
            self.existing_fields.learn(part)
        self.add_up(statistics, missing, parts)
        return statistics

    async def _ask(
        self,
        index: Index,
        keys: StatisticsKeys,
        statistics: Statistics,
        deadline: Deadline,
        *,
        is_partial: bool,
    ) -> list[StatisticsResponse]:
        """Ask the shards for statistics; fewer may respond only if `is_partial`."""
        answers = await gather_partial(
            self._cluster,
            STATISTICS,
            self.request(index, keys, statistics),
            deadline,
            is_partial=is_partial,
        )
        return [answer for answer in answers if answer is not None]
