"""The last step of parsing: the draft of a search → its parameters, with the index's defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from common.nearest_name import GUESSES_MAX, did_you_mean
from common.protocol.messages import RangeRequest, SortKey
from common.search_option_parsers import ALL_FIELDS
from coordinator.parameters.facet_specs import FacetSpec, facet_spec
from coordinator.parameters.highlight_options import highlight_request
from coordinator.parameters.parsed_parameters import PER_PAGE_DEFAULT, NamedField, SearchParameters
from coordinator.parameters.searched_fields import not_searched, unsearched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from common.index_configuration import FacetConfiguration, IndexConfiguration
    from coordinator.parameters.mistakes import Mistakes
    from coordinator.parameters.search_draft import SearchDraft

LISTED_CHARS_MAX: Final = 500
"""Of the names in a warning."""


def check_groups(draft: SearchDraft, mistakes: Mistakes) -> None:
    """Record conflicts between `distinct` and other parameters."""
    values = draft.values
    num_items = values.get("per_page", PER_PAGE_DEFAULT) * (values.get("group_hits") or 0)
    if num_items > draft.limits.per_page_max:
        shown = draft.limits.shown("per_page_max")
        mistakes.note(
            "distinct.hits",
            f"times per_page is {num_items}, but a page has up to {shown}",
            "invalid_distinct",
        )
    distinct = values.get("distinct")
    if distinct is not None and distinct.counts_groups and draft.cube is not None:
        mistakes.note(
            "facet_cube",
            'counts items, and cannot be combined with distinct.facets_by "groups"',
            "invalid_facet_cube",
        )
    if distinct is not None and distinct.counts_groups and draft.field_facets:
        name = next(iter(draft.field_facets))
        mistakes.note(
            "distinct.facets_by",
            f'"groups" counts configured facets only; {name[:100]!r} is not one',
            "invalid_distinct",
        )


def search_parameters(draft: SearchDraft) -> SearchParameters:
    """Return the parameters of a search, of which none was wrong; the draft is used up."""
    values = draft.values
    configuration = draft.configuration
    values.setdefault("match", configuration.match)
    values.setdefault("prefix", configuration.prefix)
    values.setdefault("typo", configuration.typo)
    values.setdefault(
        "infix", 2 if configuration.is_infix else int(bool(configuration.infix_fields))
    )
    values.setdefault("typo_lengths", configuration.typo_lengths)
    values.setdefault("boosts", configuration.boosts)
    values.setdefault("search_fields", configuration.searchable_fields)
    values.setdefault("timeout_ms", draft.limits.request_timeout_ms)
    if draft.sort_field is not None and "sort" not in values:
        collation = configuration.collation_of(draft.sort_field)
        values["sort"] = (SortKey(draft.sort_field, collation=collation),)
    if configuration.nested and "sort" in values:
        values["sort"] = tuple([_element_key(draft, key) for key in values["sort"]])
    conditions = draft.conditions
    if conditions.clauses:
        values["filters"] = tuple(conditions.clauses)
        values["selected"] = conditions.selected
    if conditions.fields:
        values["filter_fields"] = conditions.fields
    if conditions.tested_fields:
        values["tested_fields"] = tuple(
            [NamedField(param, name) for name, param in conditions.tested_fields.items()]
        )
    if draft.marks:
        per_page = values.get("per_page", PER_PAGE_DEFAULT)
        values["marks"] = highlight_request(draft.marks, per_page, draft.limits)
    if shown := tuple(_shown_fields(draft)):
        values["dispensable_fields"] = shown
    if warnings := (*_unsearched_fields(draft), *_unknown_facets(draft, draft.facet_fields or ())):
        values["warnings"] = warnings
    if draft.ranges:
        values["ranges"] = tuple([_range_request(draft, *one) for one in draft.ranges])
    values["facets"] = _facet_specs(draft, draft.facets)
    if draft.field_facets:
        values["field_facets"] = _facet_specs(draft, draft.field_facets)
    if within := conditions.facets_within(draft.facets, is_strict=draft.is_strict):
        values["within"] = within
    return SearchParameters(**values)


def _shown_fields(draft: SearchDraft) -> Iterator[NamedField]:
    """Yield the fields that a request names to show them, to mark them, or to leave them out.

    Except what responses add to items, such as `_score`, and all fields to be marked.
    """
    values, marks = draft.values, draft.marks
    for param, names in (
        ("fields", values.get("fields")),
        ("exclude_fields", values.get("exclude_fields")),
        ("highlight", marks.get("highlight_fields")),
        ("snippet", [name for name, _ in marks.get("snippet_fields") or ()]),
    ):
        for name in names or ():
            if name != ALL_FIELDS and not name.startswith("_"):
                yield NamedField(param, name)


def _unsearched_fields(draft: SearchDraft) -> Iterator[str]:
    """Yield a warning for each of `search_fields` that the configuration does not search."""
    searchable = draft.configuration.searchable_fields
    if searchable is None:
        return
    for path in unsearched(draft.values.get("named_search_fields", ()), searchable):
        yield f"search_fields {not_searched(path, searchable)}"


def _unknown_facets(draft: SearchDraft, names: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each name in `facet_fields` that is not a facet."""
    known = {**draft.facets, **draft.field_facets}
    unknown = [name[:100] for name in names if name not in known]
    listed = f"; the facets are {', '.join(known)[:LISTED_CHARS_MAX] or 'none'}" if unknown else ""
    return tuple(
        [
            f"facet_fields names {name!r}, which is not a facet"
            f"{(did_you_mean(name, known) or listed) if place < GUESSES_MAX else ''}"
            for place, name in enumerate(unknown)
        ]
    )


def _range_request(draft: SearchDraft, name: str, options: Mapping[str, Any]) -> RangeRequest:
    """Return the request of one field of `facet_ranges`."""
    leaves_out_own = _leaves_out_own(draft, name)
    within = draft.conditions.range_within(name, options, leaves_out_own=leaves_out_own)
    return RangeRequest(name, leaves_out_own=leaves_out_own, within=within, **options)


def _leaves_out_own(draft: SearchDraft, name: str) -> bool:
    """Return whether the counts of a field leave out what `filters` says of it."""
    facet = draft.facets.get(name) or draft.field_facets.get(name)
    is_conjunctive = facet is not None and facet.conjunction
    return not is_conjunctive and not draft.is_strict


def _element_key(draft: SearchDraft, key: SortKey) -> SortKey:
    """Return a sort key; inside a nested field, restricted to the elements that match."""
    conditions = draft.conditions
    nested = None if key.field is None else conditions.nested_field_of(key.field)
    return key if nested is None else structs.replace(key, within=conditions.element(nested))


def _facet_specs(
    draft: SearchDraft, facets: Mapping[str, FacetConfiguration]
) -> tuple[FacetSpec, ...]:
    """Return the facets to show, in order."""
    if draft.facet_fields is None and not draft.facet_options:
        return _all_facets(draft.configuration)
    wanted = facets if draft.facet_fields is None else set(draft.facet_fields)
    specs = []
    for name, facet in facets.items():
        if name in wanted:
            options = draft.facet_options.get(name)
            specs.append(
                facet_spec(facet)
                if options is None
                else facet_spec(facet, options.key_query, options.offset, options.summary)
            )
    return tuple(specs)


class _AllFacetsCache:
    """Caches the facets of an index for requests that name none: always the same tuple.

    Keyed by identity, because a configuration is immutable and replaced as a whole. Each entry
    holds its configuration, so that the identity cannot be reused meanwhile.
    """

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.entries: dict[int, tuple[IndexConfiguration, tuple[FacetSpec, ...]]] = {}

    def __call__(self, configuration: IndexConfiguration) -> tuple[FacetSpec, ...]:
        entry = self.entries.get(id(configuration))
        if entry is None:
            if len(self.entries) >= self.size_max:
                self.entries.clear()
            specs = tuple(facet_spec(facet) for facet in configuration.facets.values())
            entry = self.entries[id(configuration)] = (configuration, specs)
        return entry[1]


_all_facets: Final = _AllFacetsCache(size_max=1_000)
