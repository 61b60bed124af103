"""Explains why an item is a hit of a search, or why it is not.

The search is sent for this item alone. If it is no hit, so is every part of the search by itself:

    filters.genres    {"genres": ["Drama"]}          0 hits  ──▶  a reason
    filter            year >= 1990                   1 hit
    query             dark                           1 hit
    query             knihgt                         0 hits  ──▶  a reason
    rules, min_score  the rest without them, then with each

So the explanation follows from the same code as the search, whatever a part means.

Cost: one search of one item for every part, and two more for a word that it lacks: with its
neighbours, it may be written together or apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from msgspec import Struct, structs

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.errors import InvalidRequest, NotFound
from common.limits import Limits
from common.placement import shown_id
from common.rules import Rule
from coordinator.cluster.catalog import Index
from coordinator.cluster.cluster import Cluster
from coordinator.parameters.filter_parser import split_conjunction
from coordinator.parameters.kinds import json_of_text
from coordinator.parameters.raw import RawParameters
from coordinator.parameters.typed import SearchParameters
from coordinator.read.results import ExplainedItem, SearchResult
from coordinator.read.search import Search
from coordinator.read.text.query_parser import query_pieces

_Find = Callable[[SearchParameters], Awaitable[SearchResult]]
"""Runs one search for the item."""
_BY_FIELD: Final = ("filters", "not_filters", "exclude_filters")


class _Part(Struct, frozen=True):
    """A part of a search that can keep an item out."""

    reason: dict[str, Any]
    parameters: tuple[SearchParameters, ...]
    """Searches for this part alone, and for a word with its neighbours; one hit is enough."""


class _ExplainedSearch(Struct, frozen=True):
    """A search, and the item for which it is explained."""

    index: Index
    raw: RawParameters
    parse: Callable[[RawParameters], SearchParameters]
    """Turns parameters into a search, narrowed by the caller's key."""
    id: bytes
    """Canonical."""

    def of_item(self, raw: RawParameters) -> SearchParameters:
        """Return the search of some parameters, for the item alone."""
        return _of_item(self.parse(raw), self.id)


class ItemExplanations:
    """Explains the results of searches for single items.

    Args:
        cluster: the shards.
        search: runs searches.
        limits: in force.
    """

    def __init__(self, cluster: Cluster, search: Search, limits: Limits) -> None:
        self._cluster = cluster
        self._search = search
        self._limits = limits
        self._analyzer = Analyzer()

    async def explain(
        self,
        index: Index,
        raw: RawParameters,
        parse: Callable[[RawParameters], SearchParameters],
        id: bytes,
    ) -> ExplainedItem:
        """Explain why an item is a hit of a search, or why not.

        Args:
            index: to search.
            raw: parameters of the search.
            parse: turns parameters into a search, narrowed by the caller's key.
            id: canonical, of the item.

        Raises:
            NotFound: the caller can see no such item.
            InvalidRequest: the search is wrong, or has too many parts.
        """
        explained = _ExplainedSearch(index, raw, parse, id)
        search = explained.of_item(raw)
        deadline = Deadline.after_ms(search.timeout_ms)
        with self._cluster.reading(index.number) as horizon:

            async def find(parameters: SearchParameters) -> SearchResult:
                left = structs.replace(parameters, timeout_ms=deadline.remaining_ms)
                return await self._search.search(index, left, horizon)

            await _check_exists(explained, find)
            search = await _with_match_mode(search, find)
            result = await find(search)
            if result.total:
                score, details = _score_of(result)
                return ExplainedItem(shown_id(id), True, [], score, details, result.seq)
            parts = self._parts(explained, frozenset(result.ignored_words))
            reasons = await _failing_parts(parts, find)
            bare = structs.replace(search, rules=(), min_score=None)
            score = details = None
            if (await find(bare)).total:
                rules = index.configuration.rules if search.rules is None else search.rules
                applied = [rule for rule in rules if rule.name in result.rules]
                reasons += await _excluding_rules(applied, bare, find)
                if not reasons and (least := search.min_score) is not None:
                    score, details = _score_of(await find(_by_score(search)))
                    reasons.append({"kind": "min_score", "score": score, "min_score": least})
        if not reasons:
            reasons.append({"kind": "combination"})
        return ExplainedItem(shown_id(id), False, reasons, score, details, result.seq)

    def _parts(self, explained: _ExplainedSearch, ignored: frozenset[str]) -> list[_Part]:
        """Return the parts of a search, each as a separate search.

        Raises:
            InvalidRequest: there are too many.
        """
        raw = explained.raw
        options = {name: raw[name] for name in ("facets",) if name in raw}
        named = [*_filters_of(raw), *self._words_of(explained, ignored)]
        if raw.get("similar_to") is not None:
            fields = {name: raw[name] for name in ("search_fields",) if name in raw}
            own = {"similar_to": raw["similar_to"], **fields}
            named.append(({"kind": "similar_to", "param": "similar_to"}, [own]))
        if len(named) > self._limits.explained_parts_max:
            raise InvalidRequest(
                f"the search has {len(named)} filters and words; an item can be explained for up "
                f"to {self._limits.shown('explained_parts_max')}",
                code="invalid_explanation",
            )
        parts = []
        for reason, searches in named:
            alone = [explained.of_item({**options, **own}) for own in searches]
            bare = [structs.replace(search, rules=(), min_score=None) for search in alone]
            parts.append(_Part(reason, tuple(bare)))
        return parts

    def _words_of(
        self, explained: _ExplainedSearch, ignored: frozenset[str]
    ) -> Iterator[tuple[dict[str, Any], list[RawParameters]]]:
        """Yield the words and phrases of the query that items must have, or must not.

        Each comes with searches of which the item must be a hit of one: for the word, and for the
        word and its neighbour on either side.
        """
        raw, search = explained.raw, explained.parse(explained.raw)
        pieces = query_pieces(search.query, self._analyzer)
        stop_words = self._search.stop_words(explained.index)
        can_drop = any(not stop_words.issuperset(words) for _, words in pieces)
        modes: dict[str, Any] = {
            name: raw[name]
            for name in ("prefix", "typo", "typo_lengths", "infix", "search_fields")
            if name in raw
        }

        def search_of(first: int, last: int) -> RawParameters:
            own: RawParameters = {
                "query": " ".join([text for text, _ in pieces[first : last + 1]]),
                "match": "all",
                **modes,
            }
            if last + 1 < len(pieces) and search.prefix == "last":
                own["prefix"] = "none"
            return own

        def is_plain(place: int) -> bool:
            return 0 <= place < len(pieces) and not pieces[place][0].startswith(('"', "-"))

        for place, (text, words) in enumerate(pieces):
            is_dropped = can_drop and stop_words.issuperset(words) and '"' not in text
            if is_dropped or ignored.issuperset(words):
                continue
            searches = [search_of(place, place)]
            if is_plain(place):
                searches += [search_of(place - 1, place)] if is_plain(place - 1) else []
                searches += [search_of(place, place + 1)] if is_plain(place + 1) else []
            yield {"kind": "word", "param": "query", "text": text}, searches


def _filters_of(raw: RawParameters) -> Iterator[tuple[dict[str, Any], list[RawParameters]]]:
    """Yield each filter with a search for it alone."""
    for name in _BY_FIELD:
        by_field = raw.get(name)
        if isinstance(by_field, str):
            by_field = json_of_text(by_field) if by_field else None
        if isinstance(by_field, Mapping):
            for field, condition in by_field.items():
                reason = {"kind": "filter", "param": f"{name}.{field}", "value": condition}
                yield reason, [{name: {field: condition}}]
    expression = raw.get("filter")
    if isinstance(expression, str) and expression:
        for text in split_conjunction(expression):
            yield {"kind": "filter", "param": "filter", "text": text}, [{"filter": text}]


def _of_item(parameters: SearchParameters, id: bytes) -> SearchParameters:
    """Return a search for one item, without counts or other lookups."""
    return structs.replace(
        parameters,
        only_ids=(id,),
        page=1,
        per_page=1,
        skip=0,
        cursor=None,
        facets=(),
        field_facets=(),
        ranges=(),
        trees=(),
        cube=None,
        distinct=None,
        group_hits=None,
        marks=None,
        fields=("id",),
        exclude_fields=None,
        show=frozenset(("score", "score_details")),
        did_you_mean=False,
    )


def _by_score(search: SearchParameters) -> SearchParameters:
    """Return a search without its score threshold, ordered by score: another order has none."""
    return structs.replace(search, min_score=None, sort=(), is_place_descending=False)


async def _check_exists(explained: _ExplainedSearch, find: _Find) -> None:
    """Check that the caller can see the item.

    Raises:
        NotFound: code item_not_found.
    """
    if not (await find(structs.replace(explained.of_item({}), rules=()))).total:
        raise NotFound(
            f"there is no item {explained.id.decode()!r} in index {explained.index.name!r}",
            code="item_not_found",
        )


async def _with_match_mode(search: SearchParameters, find: _Find) -> SearchParameters:
    """Return a search with the match mode that "auto" comes to, over the hits of all items."""
    if search.match != "auto":
        return search
    of_all = structs.replace(search, only_ids=(), per_page=0, show=frozenset())
    return structs.replace(search, match=(await find(of_all)).match or "all")


async def _failing_parts(parts: Sequence[_Part], find: _Find) -> list[dict[str, Any]]:
    """Return the reasons of those parts of a search that the item does not match."""
    reasons = []
    for part in parts:
        for alone in part.parameters:
            if (await find(alone)).total:
                break
        else:
            reasons.append(part.reason)
    return reasons


async def _excluding_rules(
    rules: Sequence[Rule], bare: SearchParameters, find: _Find
) -> list[dict[str, Any]]:
    """Return a reason for each rule that, alone, excludes a hit of the search without rules."""
    return [
        {"kind": "rule", "rule": rule.name}
        for rule in rules
        if not (await find(structs.replace(bare, rules=(rule,)))).total
    ]


def _score_of(result: SearchResult) -> tuple[float | None, Any]:
    """Return the score of the only hit, and its parts."""
    items: Sequence[bytes] = result.items
    shown = orjson.loads(items[0])
    return shown.get("_score"), shown.get("_score_details")
