"""READ PATH: one search over all shards, from parameters to result.

    parameters ─▶ 1 parse      query text → clauses (query_parser)
                  2 statistics words → document frequencies of all shards, cached per horizon
                  3 score      frequencies → weights (common.scoring); unknown words are ignored
                  4 scatter    SearchRequest to every shard (fan_out) ─▶ shard/searcher.py
                  5 values     facet dictionaries that grew are fetched once (facet_values)
                  6 merge      hits by order (merge), counts by addition (facet_values)
                  7 fetch      documents of the page that did not come with the hits
                  8 dress      projection, marks, scores (dress) ─▶ SearchResult

One horizon is chosen at the beginning and named in every call, so hits, facets and total belong to
one state whatever is written meanwhile. Step 2 costs a round trip only for words that this horizon
has not seen; step 5 only after a write brought a new facet value; step 7 only for deep pages and
highlighting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from common.analysis.analyzer import Analyzer
from common.configuration import IndexConfiguration
from common.deadline import Deadline
from common.errors import InvalidRequest, Unavailable
from common.limits import Limits
from common.protocol.messages import (
    FacetCounts,
    FacetRequest,
    FacetValuesRequest,
    FacetValuesResponse,
    FetchRequest,
    FetchResponse,
    FieldWeight,
    ScoredClause,
    SearchRequest,
    SearchResponse,
    StatisticsRequest,
    StatisticsResponse,
    TextQuery,
)
from common.query import NUM_MATCH_KINDS, Clause, Phrase, Word
from common.scoring import clause_weights
from coordinator.cursor import Cursor
from coordinator.dress import dress_items
from coordinator.facet_keys import accepted_keys
from coordinator.facet_values import BucketOrder, FacetValues, MergedCounts, page_of_buckets
from coordinator.fan_out import gather, gather_each
from coordinator.merge import Hit, merge_hits
from coordinator.query_parser import (
    ParsedQuery,
    QueryOptions,
    Vocabulary,
    parse_query,
    words_of,
)
from coordinator.ranges import merge_ranges
from coordinator.requests import FacetParameters, FacetWish, SearchParameters
from coordinator.results import (
    FacetPage,
    FacetResult,
    FacetStats,
    SearchResult,
    ShardSummary,
    Timings,
)

if TYPE_CHECKING:
    from coordinator.catalog import Catalog, Index
    from coordinator.cluster import Cluster

INLINE_HITS_MAX = 40
"""Up to this many hits a shard sends the documents with the keys: reading some in vain costs less
than a second round trip."""
STATISTICS_WORDS_MAX = 10_000
"""Words remembered per index and horizon."""
ALWAYS = 1 << 31
"""A `num_alive_wanted` that no number of values reaches."""


@dataclass(slots=True)
class _Statistics:
    """What scoring knows of all live documents as of one horizon."""

    horizon: int
    num_docs: int = -1
    """-1: not asked for yet."""
    average_lengths: dict[str, float] = field(default_factory=dict)
    doc_freqs: dict[Word, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class _IndexMemory:
    """What is remembered of one index between searches; all of it can be asked for again."""

    revision: int
    vocabulary: Vocabulary
    statistics: _Statistics
    facet_values: dict[str, FacetValues] = field(default_factory=dict)
    scalar_fields: set[str] = field(default_factory=set)
    """Fields that have, or had, scalar values: the set only grows."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the shards answered to one search, facet dictionaries known."""

    answers: list[tuple[int, SearchResponse]]
    horizon: int
    memory: _IndexMemory
    ignored_words: list[str]
    query: TextQuery | None

    @property
    def total(self) -> int:
        return sum(answer.total for _, answer in self.answers)


class Search:
    """Answers searches; one per coordinator."""

    def __init__(self, cluster: Cluster, catalog: Catalog, limits: Limits) -> None:
        self._cluster = cluster
        self._limits = limits
        self._analyzer = Analyzer()
        self._memories: dict[int, _IndexMemory] = {}
        catalog.on_change(lambda: self._forget_dropped(catalog))

    # --- the two public operations

    async def search(self, index: Index, parameters: SearchParameters) -> SearchResult:
        """Answer one search.

        Args:
            index: what is searched.
            parameters: valid but for what only the data know.

        Raises:
            InvalidRequest: a filter or sort field has no scalar values anywhere.
            Unavailable: a shard is away or late (unless a partial answer is allowed).
        """
        started = time.perf_counter()
        deadline = Deadline.after_ms(parameters.timeout_ms)
        cursor = _cursor(index, parameters)
        with self._cluster.reading(index.number) as newest:
            horizon = newest if cursor is None or cursor.is_start else cursor.horizon
            outcome = await self._scatter(index, parameters, horizon, cursor, deadline)
            hits = merge_hits(
                outcome.answers,
                parameters.sort,
                parameters.is_place_descending,
                0 if cursor else parameters.offset,
                parameters.per_page,
                parameters.distinct,
            )
            documents, marks = await self._documents(index, parameters, outcome, hits, deadline)
        items = dress_items(parameters, hits, documents, marks, outcome.answers)
        facets = [self._facet(wish, parameters, outcome) for wish in parameters.facets]
        return SearchResult(
            page=parameters.page,
            per_page=parameters.per_page,
            total=outcome.total,
            items=items,
            facets=facets,
            ranges=merge_ranges(parameters.ranges, outcome.answers),
            seq=horizon,
            ignored_words=outcome.ignored_words,
            shards=ShardSummary(self._cluster.num_shards, len(outcome.answers)),
            timings=_timings(started, outcome.answers),
            cursor=_next_cursor(cursor, index, horizon, parameters, hits),
        )

    async def facet(self, index: Index, parameters: FacetParameters) -> FacetPage:
        """Answer one page of one facet's buckets.

        Raises:
            As `search`.
        """
        started = time.perf_counter()
        search = parameters.search
        deadline = Deadline.after_ms(search.timeout_ms)
        name = parameters.facet.field
        with self._cluster.reading(index.number) as horizon:
            outcome = await self._scatter(
                index, search, horizon, None, deadline, wants_all_buckets=True
            )
        values = outcome.memory.facet_values[name]
        accepts = accepted_keys(
            values, self._analyzer, parameters.key_pattern, parameters.key_query
        )
        buckets, total = page_of_buckets(
            values,
            values.merge(_counts_of(outcome.answers, 0)),
            search.selected.get(name, frozenset()),
            BucketOrder(parameters.facet.sort, parameters.facet.hide_zero),
            parameters.offset,
            parameters.per_page,
            accepts,
        )
        facet = parameters.facet
        return FacetPage(
            page=parameters.page,
            per_page=parameters.per_page,
            facet=FacetResult(name, facet.title, facet.position, buckets, total, None),
            total=total,
            seq=horizon,
            shards=ShardSummary(self._cluster.num_shards, len(outcome.answers)),
            timings=_timings(started, outcome.answers),
        )

    # --- steps 1-5

    async def _scatter(
        self,
        index: Index,
        parameters: SearchParameters,
        horizon: int,
        cursor: Cursor | None,
        deadline: Deadline,
        *,
        wants_all_buckets: bool = False,
    ) -> _Outcome:
        """Ask the shards; afterwards every facet number in their answers has a text."""
        memory = self._memory(index)
        query, ignored_words, is_hopeless = await self._text_query(
            index, memory, parameters, horizon, deadline
        )
        await self._check_fields(index, memory, parameters, horizon, deadline)
        num_hits = parameters.per_page if cursor else parameters.offset + parameters.per_page
        is_inline = num_hits <= INLINE_HITS_MAX and parameters.marks is None
        request = SearchRequest(
            index=index.number,
            horizon=horizon,
            revision=index.revision,
            query=_HOPELESS if is_hopeless else query,
            filters=parameters.filters,
            facets=_facet_requests(parameters, wants_all_buckets),
            ranges=parameters.ranges,
            sort=parameters.sort,
            is_place_descending=parameters.is_place_descending,
            num_hits=num_hits if parameters.per_page else 0,
            num_documents=num_hits if is_inline and parameters.per_page else 0,
            after=None if cursor is None or cursor.is_start else cursor.after,
            distinct=parameters.distinct,
            wants_explanation="score_details" in parameters.show,
            timeout_ms=deadline.remaining_ms,
        )
        responses = await gather(
            self._cluster,
            "search",
            request,
            SearchResponse,
            deadline,
            is_partial=parameters.allows_partial,
        )
        answers = [(i, answer) for i, answer in enumerate(responses) if answer is not None]
        await self._learn_values(index, memory, answers, deadline)
        return _Outcome(answers, horizon, memory, ignored_words, query)

    async def _text_query(
        self,
        index: Index,
        memory: _IndexMemory,
        parameters: SearchParameters,
        horizon: int,
        deadline: Deadline,
    ) -> tuple[TextQuery | None, list[str], bool]:
        """Parse and score the query text.

        Returns:
            The query (None: no restriction), the words that were ignored since no document has
            them, and whether nothing at all can match.
        """
        if not parameters.query:
            return None, [], False
        configuration = index.configuration
        options = QueryOptions(parameters.match, parameters.prefix, parameters.typo)
        parsed = parse_query(
            parameters.query,
            options,
            memory.vocabulary,
            self._analyzer,
            self._limits.query_words_max,
        )
        if parsed.is_blank:
            # Punctuation only: it names nothing, so it restricts nothing.
            return None, [], False
        statistics = await self._statistics(
            index, memory, parsed, horizon, deadline, parameters.allows_partial
        )
        known = [
            (clause, count)
            for clause, count in zip(parsed.clauses, parsed.multiplicities, strict=True)
            if isinstance(clause, Phrase) or any(statistics.doc_freqs[clause])
        ]
        ignored = [
            clause.text
            for clause in parsed.clauses
            if isinstance(clause, Word) and not any(statistics.doc_freqs[clause])
        ]
        if parsed.clauses and not known:
            return None, ignored, True
        clauses = tuple(
            ScoredClause(clause, _weights(clause, count, statistics)) for clause, count in known
        )
        query = TextQuery(
            clauses=clauses,
            required=parsed.num_required(len(clauses)),
            is_leading=parsed.match == "last",
            excluded=parsed.excluded,
            fields=_field_weights(parameters, statistics),
            k1=configuration.k1,
            b=configuration.b,
            proximity=configuration.proximity,
        )
        return query, ignored, False

    async def _statistics(
        self,
        index: Index,
        memory: _IndexMemory,
        parsed: ParsedQuery,
        horizon: int,
        deadline: Deadline,
        is_partial: bool,
    ) -> _Statistics:
        """Return statistics that know all words of a query, asking the shards for new ones."""
        statistics = memory.statistics
        if statistics.horizon != horizon:
            statistics = _Statistics(horizon)
            if horizon > memory.statistics.horizon:
                memory.statistics = statistics
        if len(statistics.doc_freqs) > STATISTICS_WORDS_MAX:
            statistics.doc_freqs.clear()
        words = words_of(parsed.clauses)
        unknown = [word for word in words if word not in statistics.doc_freqs]
        if not unknown and statistics.num_docs >= 0:
            return statistics
        if is_partial and self._cluster.failed_shards():
            # Not remembered: the next search may find all shards there again.
            statistics = _Statistics(horizon)
            unknown = words
        await self._ask_statistics(index, memory, statistics, unknown, deadline, is_partial)
        return statistics

    async def _ask_statistics(
        self,
        index: Index,
        memory: _IndexMemory,
        statistics: _Statistics,
        words: list[Word],
        deadline: Deadline,
        is_partial: bool,
    ) -> None:
        """Add up the statistics of all shards (of those that answer, if a part will do)."""
        answers = await gather(
            self._cluster,
            "statistics",
            StatisticsRequest(index.number, statistics.horizon, tuple(words)),
            StatisticsResponse,
            deadline,
            is_partial=is_partial,
        )
        parts = [part for part in answers if part is not None]
        statistics.num_docs = sum(part.num_docs for part in parts)
        lengths: dict[str, list[int]] = {}
        for part in parts:
            memory.scalar_fields.update(part.scalar_fields)
            for one in part.fields:
                sums = lengths.setdefault(one.path, [0, 0])
                sums[0] += one.num_docs
                sums[1] += one.total_length
        statistics.average_lengths = {
            path: total / num_docs for path, (num_docs, total) in lengths.items() if num_docs
        }
        for i, word in enumerate(words):
            freqs = [part.doc_freqs[i] for part in parts]
            statistics.doc_freqs[word] = tuple(map(sum, zip(*freqs, strict=True)))

    async def _check_fields(
        self,
        index: Index,
        memory: _IndexMemory,
        parameters: SearchParameters,
        horizon: int,
        deadline: Deadline,
    ) -> None:
        """Refuse filters and orders on fields that no document ever had a scalar value in.

        An index without documents refuses nothing: nobody can tell yet.
        """
        configuration = index.configuration
        known = memory.scalar_fields
        filtered = {
            name: param
            for name, param in parameters.filter_fields.items()
            if name not in known and not _is_declared(configuration, name)
        }
        sorted_by = [
            key.field
            for key in parameters.sort
            if key.field is not None
            and key.field not in known
            and not _is_declared(configuration, key.field)
        ]
        if not filtered and not sorted_by:
            return
        statistics = _Statistics(horizon)
        await self._ask_statistics(
            index, memory, statistics, [], deadline, parameters.allows_partial
        )
        if statistics.num_docs == 0:
            return
        for name, param in filtered.items():
            if name not in known:
                raise InvalidRequest(
                    f"{name!r} is neither a facet nor a field with values to filter by; "
                    f"the facets are {_listed(configuration.facets)}, "
                    f"fields with values are {_listed(sorted(known))}",
                    code="unknown_facet",
                    param=param,
                )
        for name in sorted_by:
            if name not in known:
                raise InvalidRequest(
                    f"no item has a value to sort by in {name!r}; "
                    f"fields with values are {_listed(sorted(known))}",
                    code="unknown_sort_field",
                    param=parameters.sort_param,
                )

    async def _learn_values(
        self,
        index: Index,
        memory: _IndexMemory,
        answers: Sequence[tuple[int, SearchResponse]],
        deadline: Deadline,
    ) -> None:
        """Fetch the tails of facet dictionaries that the answers refer to and nobody knows yet."""
        wanted: list[tuple[int, FacetValues, FacetCounts, int]] = []
        for shard, answer in answers:
            for counts in answer.facets:
                values = memory.facet_values.get(counts.field)
                if values is None:
                    values = FacetValues(self._cluster.num_shards)
                    memory.facet_values[counts.field] = values
                start = values.missing_from(shard, counts.epoch, counts.num_values)
                if start is not None and all(
                    known is not values or other != shard for other, known, _, _ in wanted
                ):
                    wanted.append((shard, values, counts, start))
        if not wanted:
            return
        timeout_ms = deadline.remaining_ms
        tails = await asyncio.gather(
            *(
                self._cluster.shards[shard].call(
                    "facet_values",
                    FacetValuesRequest(index.number, counts.field, counts.epoch, start),
                    FacetValuesResponse,
                    timeout_ms,
                )
                for shard, _, counts, start in wanted
            )
        )
        for (shard, values, counts, _), tail in zip(wanted, tails, strict=True):
            values.extend(shard, tail.epoch, tail.start, tail.values)
            if values.missing_from(shard, counts.epoch, counts.num_values) is not None:
                raise Unavailable(
                    f"facet {counts.field!r} is being rebuilt on shard {shard}; try again"
                )

    # --- steps 6-8

    async def _documents(
        self,
        index: Index,
        parameters: SearchParameters,
        outcome: _Outcome,
        hits: Sequence[Hit],
        deadline: Deadline,
    ) -> tuple[list[bytes], list[dict[str, object]] | None]:
        """Return the stored bytes (and marks) of the hits, fetching those that are not here."""
        answers = dict(outcome.answers)
        if parameters.marks is None and all(
            hit.rank < len(answers[hit.shard].documents) for hit in hits
        ):
            return [answers[hit.shard].documents[hit.rank] for hit in hits], None
        requests: list[FetchRequest | None] = []
        for shard in range(self._cluster.num_shards):
            records = np.array([hit.record for hit in hits if hit.shard == shard], np.uint64)
            requests.append(
                FetchRequest(
                    index.number,
                    outcome.horizon,
                    records.tobytes(),
                    outcome.query if parameters.marks is not None else None,
                    parameters.marks,
                )
                if len(records)
                else None
            )
        fetched = await gather_each(
            self._cluster, "fetch", requests, FetchResponse, deadline, is_partial=True
        )
        documents: list[bytes] = []
        marks: list[dict[str, object]] = []
        taken = [0] * self._cluster.num_shards
        for hit in hits:
            part = fetched[hit.shard]
            if part is None:
                raise Unavailable(f"shard {hit.shard} went away between finding and fetching hits")
            documents.append(part.documents[taken[hit.shard]])
            marks.append(part.marks[taken[hit.shard]] if part.marks else {})
            taken[hit.shard] += 1
        return documents, marks if parameters.marks is not None else None

    def _facet(
        self, wish: FacetWish, parameters: SearchParameters, outcome: _Outcome
    ) -> FacetResult:
        """Merge the counts of one facet and choose its buckets."""
        settings = wish.configuration
        name = settings.field
        values = outcome.memory.facet_values.get(name) or FacetValues(self._cluster.num_shards)
        parts = [
            (shard, counts)
            for shard, answer in outcome.answers
            for counts in answer.facets
            if counts.field == name
        ]
        # With statistics of a facet that leaves out its own filter, a shard sends two counts.
        num_counts = max(1, len(parts) // max(1, len(outcome.answers)))
        merged = values.merge(parts[::num_counts])
        buckets, total = page_of_buckets(
            values,
            merged,
            parameters.selected.get(name, frozenset()),
            BucketOrder(settings.sort, settings.hide_zero),
            wish.offset,
            settings.size,
            accepted_keys(values, self._analyzer, None, wish.key_query),
        )
        stats = None
        if settings.show_facet_stats:
            within = merged if num_counts == 1 else values.merge(parts[1::num_counts])
            stats = facet_stats(values, within)
        return FacetResult(name, settings.title, settings.position, buckets, total, stats)

    # --- what is remembered

    def _memory(self, index: Index) -> _IndexMemory:
        """Return what is remembered of an index under its present configuration."""
        memory = self._memories.get(index.number)
        if memory is None or memory.revision != index.revision:
            vocabulary = Vocabulary(index.configuration, self._analyzer)
            memory = _IndexMemory(index.revision, vocabulary, _Statistics(-1))
            self._memories[index.number] = memory
        return memory

    def _forget_dropped(self, catalog: Catalog) -> None:
        """Let go of indexes that are no longer in the catalog."""
        existing = {index.number for index in catalog.indexes.values()}
        for number in [number for number in self._memories if number not in existing]:
            del self._memories[number]


_HOPELESS = TextQuery((), 1, False, (), (), 0.0, 0.0, 0.0)
"""One clause must match, and there is none: no document does."""


def _weights(clause: Clause, count: int, statistics: _Statistics) -> tuple[tuple[float, ...], ...]:
    """Return the weights of a clause's words, by match kind."""
    return tuple(
        tuple(
            count * weight
            for weight in clause_weights(statistics.doc_freqs[word], statistics.num_docs)
        )
        for word in words_of((clause,))
    ) or ((0.0,) * NUM_MATCH_KINDS,)


def _field_weights(
    parameters: SearchParameters, statistics: _Statistics
) -> tuple[FieldWeight, ...]:
    """Return the fields that the query looks into: those asked for, or all that have words."""
    lengths = statistics.average_lengths
    if parameters.search_fields is None:
        return tuple(FieldWeight(path, 1.0, lengths[path]) for path in sorted(lengths))
    return tuple(
        FieldWeight(one.path, one.weight, lengths[one.path])
        for one in sorted(parameters.search_fields)
        if one.path in lengths
    )


def _facet_requests(
    parameters: SearchParameters, wants_all_buckets: bool
) -> tuple[FacetRequest, ...]:
    """Return what to count.

    `num_alive_wanted` is how many buckets may be shown: a shard with fewer values among the hits
    tells which others are alive, since these may be listed with zero. An order by key, or a
    selected value that hits may lack, can need any value.
    """
    requests = []
    for wish in parameters.facets:
        settings = wish.configuration
        name = settings.field
        selected = bool(parameters.selected.get(name))
        leaves_out_own = not settings.conjunction and not parameters.is_strict and selected
        order = BucketOrder(settings.sort, settings.hide_zero)
        if wants_all_buckets or selected:
            num_alive_wanted = ALWAYS
        elif settings.hide_zero:
            num_alive_wanted = 0
        elif not order.is_by_count or wish.key_query:
            num_alive_wanted = ALWAYS
        else:
            num_alive_wanted = wish.offset + settings.size
        requests.append(FacetRequest(name, leaves_out_own, num_alive_wanted))
        if settings.show_facet_stats and leaves_out_own:
            requests.append(FacetRequest(name, False, 0))
    return tuple(requests)


def facet_stats(values: FacetValues, merged: MergedCounts) -> FacetStats | None:
    """Return min, max, avg, sum and count of a facet's numeric values, from its exact counts.

    Computed from counts by value, so it does not depend on how documents are divided over shards.

    Returns:
        None if no document has a numeric value.
    """
    numbers = values.numeric_values()
    counts = merged.counts
    present = np.flatnonzero((counts > 0) & ~np.isnan(numbers))
    if not len(present):
        return None
    numbers, counts = numbers[present], counts[present]
    count = int(counts.sum())
    # Exactly rounded, so the order in which values became known does not matter.
    total = fsum((numbers * counts).tolist())
    return FacetStats(
        min=float(numbers.min()),
        max=float(numbers.max()),
        avg=total / count,
        sum=total,
        count=count,
    )


def _counts_of(
    answers: Sequence[tuple[int, SearchResponse]], position: int
) -> list[tuple[int, FacetCounts]]:
    return [(shard, answer.facets[position]) for shard, answer in answers]


def _is_declared(configuration: IndexConfiguration, name: str) -> bool:
    """Whether the configuration itself promises that a field can be filtered and sorted by."""
    return name in configuration.facets or name in configuration.sorting_fields


def _listed(names: object) -> str:
    """Return names for a message, cut to what a person reads."""
    text = ", ".join(map(str, names)) or "none"  # type: ignore[call-overload]
    return text if len(text) <= 500 else text[:500] + ", …"


def _timings(started: float, answers: Sequence[tuple[int, SearchResponse]]) -> Timings:
    """Return the phases: a shard's are those of the slowest one."""
    search, facets, sort = (
        max((answer.timings_us[phase] for _, answer in answers), default=0) for phase in range(3)
    )
    total = int((time.perf_counter() - started) * 1_000_000)
    return Timings(total, search, facets, sort)


def _cursor(index: Index, parameters: SearchParameters) -> Cursor | None:
    """Return the cursor of a request, if it has one."""
    if parameters.cursor is None:
        return None
    return Cursor.decode(parameters.cursor, index.revision, len(parameters.sort))


def _next_cursor(
    cursor: Cursor | None,
    index: Index,
    horizon: int,
    parameters: SearchParameters,
    hits: Sequence[Hit],
) -> str | None:
    """Return where to go on: behind the last hit of a full page of a cursor's search."""
    if cursor is None or len(hits) < parameters.per_page or not hits:
        return None
    last = hits[-1]
    return Cursor(index.revision, horizon, (*last.sort_values, last.score, last.place)).encode()
