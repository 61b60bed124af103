"""Checks that the fields a search names have values of the kind it needs.

    filters, sort, boost, distinct, ranges, facets …   an unknown field is an error: the hits, their
    search_fields, if all are unknown                  order or the counts would mean nothing
    search_fields, if others are known; fields,        an unknown field is a warning: the rest of
    exclude_fields, highlight, snippet, not_filters,   the response is as requested
    tests for existence, the conditions of rules
    a text compared by order with numbers only,        a warning: the condition is never met
    a number with texts only, equality with "",
    areas of points where no item has a point
    not_filters, tests for existence and such          an error: it would concern all items, or none
    conditions of a deletion, update or export
    any condition of an update on a field that it      nothing is said: the field begins with it
    sets

An empty index knows no fields, so it rejects nothing. Nor does a search under an API key filter:
the answer would reveal which fields the hidden items have. (A change or export under one is checked
against the items that pass it, in `item_selection`.)

Which fields have values only the shards know. So these mistakes are found here, after the request
was parsed, from the statistics of the index: a round trip only for a field not seen yet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from common.boosts import MOMENT_KINDS, NUMBER_KINDS
from common.curation_rules import Rule
from common.errors import DeadlineExceeded, InvalidRequest, Unavailable
from common.nearest_name import GUESSES_MAX
from common.query_syntax_tree import Range
from common.search_option_parsers import ALL_FIELDS
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.field_needs import BOOST, NUMBERS, TEXTS, FieldNeed, bits
from coordinator.parameters.parsed_parameters import NamedField, SearchParameters
from coordinator.parameters.searched_fields import unsearched
from coordinator.parameters.sort_keys import FROM_POINT
from coordinator.read.index_caches import IndexCache
from coordinator.read.text.fields_reported_by_shards import ExistingFields
from coordinator.read.text.query_parser import NO_QUERY

_NOUNS: Final = {
    0: ("value", "values"),
    TEXTS: ("text", "texts"),
    NUMBERS: ("number", "numbers"),
    bits(NUMBER_KINDS): ("number", "numbers"),
    bits(MOMENT_KINDS): ("date or number", "dates or numbers"),
}
_LISTED_CHARS_MAX: Final = 500
_SCORE_NAMES: Final = ("score", "relevance", "_relevance", "_text_match", "_rankingscore")
_RANDOM_NAMES: Final = ("random", "_random", "rand", "rand()", "random()", "_rand()", "shuffle")
_OTHER_ORDER: Final = re.compile(
    r"-(?P<descending>.+)|(?P<name>.+?)[ _](?P<order>asc|desc)", re.IGNORECASE
)
"""How other programs write the order of a sort field."""


class CheckedSearch(NamedTuple):
    """A search whose fields are checked.

    Attributes:
        cache: of the index.
        parameters: of the search.
        state: the state that is read.
    """

    cache: IndexCache
    parameters: SearchParameters
    state: SearchedState

    @property
    def existing(self) -> ExistingFields:
        """The fields that items have, as far as known."""
        return self.cache.statistics.existing_fields

    async def num_docs(self) -> int:
        """Return the number of items; on return, the fields that they have are known."""
        statistics = await self.cache.statistics.of_query(
            self.state.index,
            NO_QUERY,
            self.state.horizon,
            self.state.deadline,
            is_partial=self.parameters.allows_partial,
        )
        return statistics.num_docs


async def check_fields(search: CheckedSearch) -> None:
    """Reject filters, sort keys and ranges on fields that never had a scalar value.

    Raises:
        InvalidRequest: a field has no values of the kind that it is used for.
        Unavailable: a shard is down or late.
    """
    cache, parameters, _ = search
    if parameters.key_filter is not None:
        return
    if _first_unmet(cache, parameters) is None and _searches_some_field(cache, parameters):
        return
    if not await search.num_docs():
        return
    unmet = _first_unmet(cache, parameters)
    if unmet is not None:
        raise _error(cache, unmet)
    if not _searches_some_field(cache, parameters):
        raise _nothing_to_search(cache, parameters)


async def search_warnings(search: CheckedSearch) -> tuple[str, ...]:
    """Return what a search probably means otherwise.

    To what its parser found, this adds a warning for each unknown field that a search names but can
    be answered without, and for each comparison that no value meets. They are hints: if a shard or
    time is lacking, there are none.
    """
    parameters = search.parameters
    try:
        messages: list[str] = []
        if parameters.names_dispensable_fields:
            messages = await _about_names(search)
        if parameters.comparisons_to_check:
            messages += await _unmet_comparisons(search)
        if parameters.point_fields:
            messages += await _without_points(search, parameters.point_fields)
    except Unavailable:
        return parameters.warnings
    return (*parameters.warnings, *messages)


async def _about_names(search: CheckedSearch) -> list[str]:
    """Return a message for each field that is named needlessly: no item has it, or no text in it.

    Those are fields that a search can be answered without.
    """
    _, parameters, state = search
    named = (*parameters.tested_fields, *parameters.dispensable_fields)
    if parameters.rules:
        trees = state.index.configuration.hierarchies
        named = (*named, *_conditions_of(parameters.rules, trees))
    fields = parameters.named_search_fields
    left_out = unsearched(fields, state.index.configuration.searchable_fields)  # named already
    searched = [
        NamedField("search_fields", one.path)
        for one in fields
        if one.path != ALL_FIELDS and one.path not in left_out
    ]
    unknown = await _unknown(search, (*searched, *named))
    messages = [unknown_field(*one).message for one in unknown]
    if parameters.key_filter is None:
        known = search.existing
        messages += [
            f"{one.param} names {one.field[:100]!r}, in which no item has a text; only texts are "
            "searched, and filter finds numbers"
            for one in searched
            if known.lacks_texts(one.field)
        ]
    return messages


async def _unmet_comparisons(search: CheckedSearch) -> list[str]:
    """Return a message for each comparison that no item can meet.

    They are those of texts with numbers, and those with the empty text, whatever the items have.
    """
    parameters = search.parameters
    ranges: list[Range] = []
    unmet: list[str] = []
    for one in parameters.comparisons_to_check:
        if isinstance(one, Range):
            ranges.append(one)
        elif len(unmet) < GUESSES_MAX:
            unmet.append(
                f'a condition compares {one.field[:100]!r} with "", which equals no value; '
                "IS EMPTY finds empty texts"
            )
    if not ranges or parameters.key_filter is not None:
        return unmet
    counted = search.existing.kinds
    if any(one.field not in counted for one in ranges):
        await search.num_docs()
    for one in ranges[:GUESSES_MAX]:
        bound = one.upper if one.lower is None else one.lower
        wanted, found = (TEXTS, NUMBERS) if isinstance(bound, str) else (NUMBERS, TEXTS)
        kinds = counted.get(one.field, 0)
        if kinds & found and not kinds & wanted:
            noun, nouns = _NOUNS[wanted][0], _NOUNS[found][1]
            message = (
                f"a condition compares {one.field[:100]!r} with the {noun} {str(bound)[:100]!r}, "
                f"but items have only {nouns} there: none can meet that"
            )
            unmet.append(message)
    return unmet


async def _without_points(search: CheckedSearch, fields: Collection[str]) -> list[str]:
    """Return a message for each field of points in which no item has one."""
    known = search.existing
    if search.parameters.key_filter is not None or not any(map(known.lacks_points, fields)):
        return []
    if not await search.num_docs():
        return []
    return [
        f"no item has a point in {field[:100]!r}; a point is an object of two numbers, such as "
        '{"lat": 48.2, "lng": 16.4}'
        for field in sorted(fields)
        if known.lacks_points(field)
    ]


def _conditions_of(rules: Sequence[Rule], trees: Container[str]) -> Iterator[NamedField]:
    """Yield the fields by which a search must filter for a rule to apply; trees are not fields."""
    for i, rule in enumerate(rules):
        for name, _ in rule.filters:
            if name not in trees:
                yield NamedField(f"rules[{i}].when.filters.{name[:100]}", name)


async def check_conditions(search: CheckedSearch) -> None:
    """Reject tests and exclusions by a field that no item has, and comparisons never met.

    Raises:
        InvalidRequest: there is one: all items would be chosen, or none.
        Unavailable: a shard is down or late.
    """
    parameters = search.parameters
    unknown = await _unknown(search, parameters.tested_fields)
    if unknown:
        named, meant = unknown[0]
        raise unknown_field(named, meant)
    for message in (
        *await _unmet_comparisons(search),
        *await _without_points(search, parameters.area_fields),
    ):
        raise InvalidRequest(message, code="invalid_filters")


def lateness_explained(
    cache: IndexCache, parameters: SearchParameters, error: DeadlineExceeded
) -> DeadlineExceeded:
    """Return the error of a search that was late, which may be the first one by texts of a field.

    Shards read all items for the first use of such texts, unless the field is a facet, and keep
    what they have found; they go on when the client has its answer.
    """
    if parameters.key_filter is not None:
        return error
    kinds = cache.statistics.existing_fields.kinds
    used = [need.field for need in parameters.field_needs]
    used += [facet.configuration.field for facet in parameters.field_facets]
    for field in used:
        if kinds.get(field, 0) & TEXTS and field not in cache.configuration.facets:
            return DeadlineExceeded(
                error.message,
                advice=f"the first search by texts of {field[:100]!r} reads all items, and goes "
                "on: send it again; texts of sorting_fields are read beforehand",
            )
    return error


async def _unknown(
    search: CheckedSearch, named: Sequence[NamedField]
) -> list[tuple[NamedField, str]]:
    """Return those of some fields that no item has, each with the one that may be meant."""
    cache = search.cache
    if not named or search.parameters.key_filter is not None:
        return []
    if all(cache.knows_path(one.field) for one in named):
        return []
    if not await search.num_docs():
        return []
    known = search.existing
    unknown = [one for one in named if not cache.knows_path(one.field)]
    return [
        (one, known.did_you_mean(one.field) if place < GUESSES_MAX else "")
        for place, one in enumerate(unknown)
    ]


def unknown_field(named: NamedField, meant: str = "") -> InvalidRequest:
    """Return the error about a field that no item has.

    Args:
        named: the field.
        meant: "; did you mean …?", or nothing.
    """
    return InvalidRequest(
        f"{named.param} names {named.field[:100]!r}, in which no item has a value{meant}",
        code="unknown_facet",
        param=named.param,
    )


def _searches_some_field(cache: IndexCache, parameters: SearchParameters) -> bool:
    """Return whether some field that the request wants to be searched is known."""
    fields = parameters.named_search_fields
    return not fields or any(one.path == ALL_FIELDS or cache.knows_path(one.path) for one in fields)


def _nothing_to_search(cache: IndexCache, parameters: SearchParameters) -> InvalidRequest:
    """Return the error about fields to search of which no item has any."""
    names = [one.path for one in parameters.named_search_fields]
    known = cache.statistics.existing_fields
    texts = known.texts
    meant = known.did_you_mean(names[0], texts)
    return InvalidRequest(
        f"no item has a value in {_listed(map(repr, names))}; fields with texts are "
        f"{_listed(texts)}{meant}",
        code="invalid_search_fields",
        param="search_fields",
    )


def _first_unmet(cache: IndexCache, parameters: SearchParameters) -> FieldNeed | None:
    """Return the first field that is not known to have the values that the search needs.

    The boosts of the configuration may name fields that no item has yet.
    """
    for need in parameters.field_needs:
        if _is_met(cache, need):
            continue
        if need.purpose != BOOST or parameters.boosts != cache.configuration.boosts:
            return need
    return None


def _is_met(cache: IndexCache, need: FieldNeed) -> bool:
    if need.kinds:
        return bool(cache.statistics.existing_fields.kinds.get(need.field, 0) & need.kinds)
    return cache.knows_field(need.field)


def _error(cache: IndexCache, need: FieldNeed) -> InvalidRequest:
    """Return the error about a field without fitting values."""
    field, kinds, purpose, param, code = need
    counted = cache.statistics.existing_fields.kinds
    fitting = [name for name in sorted(counted) if not kinds or counted[name] & kinds]
    candidates = fitting if purpose else [*cache.configuration.facets, *fitting]
    meant = cache.statistics.existing_fields.did_you_mean(field, candidates)
    if not purpose:
        message = (
            f"{field!r} is neither a facet nor a field with values to filter or count by; "
            f"the facets are {_listed(cache.configuration.facets)}, "
            f"fields with values are {_listed(fitting)}"
        )
    else:
        noun, nouns = _NOUNS[kinds]
        message = (
            f"no item has a {noun} to {purpose} in {field!r}; fields with {nouns} are "
            f"{_listed(fitting)}"
        )
    if purpose == "sort by":
        meant = _order_meant(field, cache.configuration.geo_fields) or meant
    return InvalidRequest(message + meant, code=code, param=param)


def _order_meant(field: str, geo_fields: Sequence[str]) -> str | None:
    """Return advice about what was taken for a field to sort by; None: it looks like one."""
    if other := _OTHER_ORDER.fullmatch(field):
        name, order = other["descending"] or other["name"], (other["order"] or "desc").lower()
        return f'; write "{name[:100]}:{order}"'
    if field.lower() in _SCORE_NAMES:
        return '; write "_score:desc" for the best matches first'
    if field.lower() in _RANDOM_NAMES:
        return '; write "_random:42" for a random order, another for each number'
    if geo_fields and (point := FROM_POINT.fullmatch(field)):
        return f'; write "{geo_fields[0][:100]}({point[2]},{point[3]})"'
    return None


def _listed(names: Iterable[str]) -> str:
    """Join names for an error message, cut to a readable length."""
    text = ", ".join(names) or "none"
    return text if len(text) <= _LISTED_CHARS_MAX else text[:_LISTED_CHARS_MAX] + ", …"
