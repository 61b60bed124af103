"""The last step of reading a search: what depends on several of Algolia's parameters (pure)."""

from __future__ import annotations

import re
from typing import Final

from common.query_syntax_tree import GeoRadius, Or
from coordinator.algolia.filters import facet_condition
from coordinator.algolia.parameter_errors import UNHONOURED, wrong
from coordinator.algolia.search_draft import AlgoliaDraft, Condition
from coordinator.parameters.value_parsers import Mistake

PRE: Final = "\ue000"
POST: Final = "\ue001"
"""Marks that the shards insert: private-use characters, which items normally do not contain."""


def finish(draft: AlgoliaDraft, choices: frozenset[str]) -> None:
    """Add what depends on several parameters.

    Args:
        draft: what the parameters have said.
        choices: facets whose counts leave out their own filter.

    Raises:
        Mistake: they contradict each other.
    """
    raw = draft.raw
    choices = choices & draft.configuration.facets.keys()
    _finish_places(draft)
    if not draft.has_syntax:
        raw["query"] = _without_syntax(raw["query"])
    if draft.optional_words:
        _finish_optional_words(draft, raw["query"].lower().split())
    if draft.skip is not None or draft.length is not None:
        if "cursor" in raw:
            raise Mistake("and offset or length exclude each other", path="cursor")
        raw["page"] = 1
        raw["per_page"] = raw["per_page"] if draft.length is None else draft.length
        draft.style["has_offset"] = True
    for group in draft.groups:
        facet = group[0].field if group[0].field in choices else None
        draft.conditions.append(Condition(facet_condition(group), "facetFilters", facet))
    if draft.counts_groups and "distinct" in raw:
        raw["distinct"]["facets_by"] = "groups"
    names = [*_known_facets(draft), *sorted(choices.difference(draft.facet_names))]
    raw["facet_fields"] = names
    raw["facets"] = {name: {**draft.options, "conjunction": name not in choices} for name in names}
    is_shown = raw["per_page"] > 0
    if draft.marks and is_shown and raw["query"].strip():
        raw["highlight"] = {"fields": draft.marks, "pre": PRE, "post": POST}
    draft.style["highlighted"] = tuple(draft.marks)
    if draft.snippets and is_shown:
        raw["snippet"] = {
            "fields": draft.snippets, "pre": PRE, "post": POST, "ellipsis": draft.ellipsis
        }  # fmt: skip
        draft.style["has_snippets"] = True


def _known_facets(draft: AlgoliaDraft) -> list[str]:
    """Return the facets to count, without names that are none.

    Pages that search several indexes ask each for the facets of all.
    """
    facets = draft.configuration.facets
    unknown = [name for name in draft.facet_names if name not in facets]
    if unknown:
        known = ", ".join(facets) or "none"
        draft.warnings += [
            f"facets names {name[:100]!r}, which is not a facet; the facets are {known[:500]}"
            for name in unknown[: draft.limits.errors_reported_max]
        ]
    return [name for name in draft.facet_names if name in facets]


def _finish_optional_words(draft: AlgoliaDraft, words: list[str]) -> None:
    optional = set(draft.optional_words)
    if optional.isdisjoint(words):
        return
    if not optional.issuperset(words):
        raise Mistake(
            "makes only some words of the query optional; either all are or none",
            code=UNHONOURED,
            path="optionalWords",
        )
    draft.raw["match"] = "any"


def _finish_places(draft: AlgoliaDraft) -> None:
    """Add the areas, of which a hit's point must be in one; without any, the radius and its order.

    As in Algolia, polygons are ignored beside boxes, and the point beside either.
    """
    areas = [(area, name) for area, name in draft.areas if area is not None]
    areas = [one for one in areas if one[1] == "insideBoundingBox"] or areas
    if (areas or draft.around is not None) and not draft.configuration.geo_fields:
        raise wrong(
            areas[0][1] if areas else "aroundLatLng",
            "needs geo_fields in the configuration of the index",
            UNHONOURED,
        )
    if areas:
        draft.conditions.append(Condition(Or(tuple([area for area, _ in areas])), areas[0][1]))
    elif draft.around is not None:
        lat, lng = draft.around
        draft.raw["sort"] = [{"field": draft.geo_field, "point": [lat, lng], "order": "asc"}]
        if draft.radius is not None:
            area = GeoRadius(draft.geo_field, lat, lng, draft.radius)
            draft.conditions.append(Condition(area, "aroundRadius"))


def _without_syntax(query: str) -> str:
    """Return a query without its quotes and leading dashes, which then have no meaning."""
    return re.sub(r"(?:^|(?<=\s))-+(?=\S)", "", query.replace('"', " "))
