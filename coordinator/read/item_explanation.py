"""Explains why an item is a hit of a search, or why it is not.

The search is sent for this item alone. If that finds nothing, each part of it is sent by itself:

    filters.genres    {"genres": ["Drama"]}          0 hits  ──▶  a reason
    filter            year >= 1990                   1 hit
    query             dark                           1 hit
    query             knihgt                         0 hits  ──▶  a reason
    rules             hide 7                         0 hits  ──▶  a reason
    min_score         if nothing else is a reason

So the explanation follows from the same code as the search, whatever a part means. Words are looked
at only if the item does not match the query: of "any" words, and where a rule pins the item, it may
lack some.

Cost: one search of one item for every part, and two more for a word that it lacks: with its
neighbours, it may be written together or apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from msgspec import Struct, structs

from common.curation_rules import Rule
from common.deadline import Deadline
from common.errors import InvalidRequest, NotFound
from common.item_ids import shown_id
from common.limits import Limits
from coordinator.catalog.catalog import Index
from coordinator.parameters.filter_parser import split_conjunction
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.parameters.request_decoding import RawParameters
from coordinator.parameters.value_parsers import json_of_text
from coordinator.read.read_services import ReadServices
from coordinator.read.search import Search
from coordinator.read.search_results import ExplainedItem, SearchResult
from coordinator.read.text.query_pieces import pieces_as_typed

_Find = Callable[[SearchParameters], Awaitable[SearchResult]]
"""Runs one search for the item."""
_BY_FIELD: Final = ("filters", "not_filters", "exclude_filters")
_RESTRICTIONS: Final = (*_BY_FIELD, "filter")


class _Part(Struct, frozen=True):
    """A part of a search that can keep an item out."""

    reason: dict[str, Any]
    parameters: tuple[SearchParameters, ...]
    """Searches for this part alone, and for a word with its neighbours; one hit is enough."""


class _Parts(NamedTuple):
    """The parts of a search."""

    filters: list[_Part]
    words: list[_Part]
    """Of the query, or the item that others are to be like."""
    text: SearchParameters
    """The search without its filters: of all words, as many as it needs."""


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
        services: what all kinds of searches share.
        search: runs searches.
    """

    def __init__(self, services: ReadServices, search: Search) -> None:
        self._services = services
        self._search = search

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
        with self._services.cluster.reading(index.number) as horizon:

            async def find(parameters: SearchParameters) -> SearchResult:
                left = structs.replace(parameters, timeout_ms=deadline.remaining_ms)
                return await self._search.search(index, left, horizon)

            await _check_exists(explained, find)
            search = await _with_match_mode(search, find)
            result = await find(search)
            if result.total:
                score, details = _score_of(result)
                return ExplainedItem(shown_id(id), True, [], score, details, result.seq)
            rules = index.configuration.rules if search.rules is None else search.rules
            applied = await _applied(rules, result.rules, search, find)
            is_pinned = any(pin.id.encode() == id for rule in applied for pin in rule.pins)
            parts = self._parts(explained, search, frozenset(result.ignored_words))
            reasons = await _failing_parts(parts.filters, find)
            # A pinned item needs no words, and one that matches the query lacks none of them.
            if not is_pinned and not (await find(parts.text)).total:
                reasons += await _failing_parts(parts.words, find)
            reasons += await _excluding_rules(applied, explained, find)
            score = details = None
            if not reasons and (least := search.min_score) is not None:
                unlimited = await find(_by_score(search))
                if unlimited.total:
                    score, details = _score_of(unlimited)
                    reasons.append({"kind": "min_score", "score": score, "min_score": least})
        if not reasons:
            reasons.append({"kind": "combination"})
        return ExplainedItem(shown_id(id), False, reasons, score, details, result.seq)

    def _parts(
        self, explained: _ExplainedSearch, search: SearchParameters, ignored: frozenset[str]
    ) -> _Parts:
        """Return the parts of a search, each as a separate search.

        Args:
            explained: the search as requested.
            search: for the item alone, with the match mode in which it was run.
            ignored: words that are in no item.

        Raises:
            InvalidRequest: there are too many.
        """
        raw = explained.raw
        filters, words = (
            [*_filters_of(raw, self._services.limits)],
            [*self._words_of(explained, search, ignored)],
        )
        if raw.get("similar_to") is not None:
            fields = {name: raw[name] for name in ("search_fields",) if name in raw}
            own = {"similar_to": raw["similar_to"], **fields}
            words.append(({"kind": "similar_to", "param": "similar_to"}, [own]))
        num_parts = len(filters) + len(words)
        if num_parts > self._services.limits.explained_parts_max:
            raise InvalidRequest(
                f"the search has {num_parts} filters and words; an item can be explained for up "
                f"to {self._services.limits.shown('explained_parts_max')}",
                code="invalid_explanation",
            )
        options = {name: raw[name] for name in ("facets",) if name in raw}
        unfiltered = {name: value for name, value in raw.items() if name not in _RESTRICTIONS}
        return _Parts(
            [_part(explained, options, *one) for one in filters],
            [_part(explained, options, *one) for one in words],
            structs.replace(
                _bare(explained.of_item(unfiltered)),
                match=search.match,
                drops_function_words=search.drops_function_words,
            ),
        )

    def _words_of(
        self, explained: _ExplainedSearch, search: SearchParameters, ignored: frozenset[str]
    ) -> Iterator[tuple[dict[str, Any], list[RawParameters]]]:
        """Yield the words and phrases of the query that items must have, or must not.

        Words that are in no item are ignored beside others. If words may be dropped from the end,
        items must have the first one only. Each comes with searches of which the item must be a hit
        of one: for the word, and for the word and its neighbour on either side.
        """
        raw = explained.raw
        pieces = pieces_as_typed(search.query, self._services.analyzer)
        stop_words = self._services.caches.stop_words(explained.index)
        if search.drops_function_words:
            stop_words |= self._services.caches.of(explained.index).dictionary.function_words
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

        kept = [
            (place, text, words)
            for place, (text, words) in enumerate(pieces)
            if not (can_drop and stop_words.issuperset(words) and '"' not in text)
        ]
        wanted = [words for _, text, words in kept if not text.startswith("-")]
        if all(ignored.issuperset(words) for words in wanted):
            ignored = frozenset()  # a search ignores unknown words only beside others
        has_first = False
        for place, text, words in kept:
            if ignored.issuperset(words):
                continue
            is_excluded = text.startswith("-")
            if search.match == "last" and has_first and not is_excluded:
                continue
            has_first |= not is_excluded
            searches = [search_of(place, place)]
            if is_plain(place):
                searches += [search_of(place - 1, place)] if is_plain(place - 1) else []
                searches += [search_of(place, place + 1)] if is_plain(place + 1) else []
            yield {"kind": "word", "param": "query", "text": text}, searches


def _filters_of(
    raw: RawParameters, limits: Limits
) -> Iterator[tuple[dict[str, Any], list[RawParameters]]]:
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
        for text in split_conjunction(expression, limits):
            yield {"kind": "filter", "param": "filter", "text": text}, [{"filter": text}]


def _part(
    explained: _ExplainedSearch,
    options: RawParameters,
    reason: dict[str, Any],
    searches: Sequence[RawParameters],
) -> _Part:
    """Return a part of a search, for the item alone."""
    return _Part(reason, tuple([_bare(explained.of_item({**options, **own})) for own in searches]))


def _bare(search: SearchParameters) -> SearchParameters:
    """Return a search without rules and threshold."""
    return structs.replace(search, rules=(), min_score=None)


def _of_item(parameters: SearchParameters, id: bytes) -> SearchParameters:
    """Return a search for one item, without counts or other lookups."""
    return structs.replace(
        parameters.without_additions(),
        only_ids=(id,),
        page=1,
        per_page=1,
        skip=0,
        cursor=None,
        distinct=None,
        fields=("id",),
        exclude_fields=None,
        show=frozenset(("score", "score_details")),
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
    """Return a search with the words and mode that "auto" comes to, over the hits of all items."""
    if search.match != "auto":
        return search
    of_all = structs.replace(search, only_ids=(), per_page=0, show=frozenset())
    result = await find(of_all)
    return structs.replace(
        search, match=result.match or "all", drops_function_words=bool(result.dropped_words)
    )


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


async def _applied(
    rules: Sequence[Rule], names: Sequence[str], search: SearchParameters, find: _Find
) -> list[Rule]:
    """Return the rules that applied to a search, given their names, which others may have too."""
    named = [rule for rule in rules if rule.name in names]
    if len(named) == len(names):
        return named
    return [one for one in named if (await find(structs.replace(search, rules=(one,)))).rules]


async def _excluding_rules(
    applied: Sequence[Rule], explained: _ExplainedSearch, find: _Find
) -> list[dict[str, Any]]:
    """Return a reason for each rule that excludes the item from a search for anything."""
    everything = _bare(explained.of_item({}))
    return [
        {"kind": "rule", "rule": rule.name}
        for rule in applied
        if (rule.hidden or rule.filter is not None)
        and not (await find(structs.replace(everything, rules=(_always(rule),)))).total
    ]


def _always(rule: Rule) -> Rule:
    """Return a rule without its conditions."""
    return rule._replace(query=None, filters=(), begins=None, ends=None)


def _score_of(result: SearchResult) -> tuple[float | None, Any]:
    """Return the score of the only hit, and its parts."""
    items: Sequence[bytes] = result.items
    shown = orjson.loads(items[0])
    return shown.get("_score"), shown.get("_score_details")
