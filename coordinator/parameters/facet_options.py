"""Options of facets, by facet (pure).

facets    {"tags": {"size": 20, "sort": "term", "query": "dr", "offset": 10, …}}
          {"brand": {"stats": ["price"]}}
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from common.index_configuration import FacetConfiguration, IndexConfiguration
from common.limits import Limits
from common.search_option_parsers import parse_facet_sort
from coordinator.parameters.facet_specs import FacetSummary
from coordinator.parameters.value_parsers import (
    Mistake,
    check_field,
    check_members,
    object_of,
    optional_bool,
    optional_integer,
    read_collation,
)

FACET_OPTIONS: Final = (
    "size",
    "sort",
    "order",
    "conjunction",
    "hide_zero",
    "query",
    "offset",
    "stats",
    "missing",
    "cardinality",
    "percentiles",
    "collation",
)


class FacetOptions(NamedTuple):
    """The options of one facet in a request."""

    configuration: FacetConfiguration
    """The index's settings, overridden by the request's."""
    key_query: str | None
    offset: int
    summary: FacetSummary


def read_facet_options(
    value: Any, configuration: IndexConfiguration, limits: Limits
) -> dict[str, FacetOptions]:
    """Read the options of facets, by facet."""
    facets = configuration.facets
    found: dict[str, FacetOptions] = {}
    wanted = object_of(value, 'of options by facet, for example {"tags": {"size": 20}}')
    for name, options in wanted.items():
        path = f".{name[:100]}"
        base = facets.get(name)
        if base is None:
            check_field(name, limits, path)
            position = len(facets) + sum(one not in facets for one in found) + 1
            if position - len(facets) > limits.field_facets_max:
                known = ", ".join(facets) or "none"
                raise Mistake(
                    f"names more than {limits.shown('field_facets_max')} that are not facets; the "
                    f"facets are {known[:500]}"
                )
            base = FacetConfiguration(
                name,
                name,
                position,
                conjunction=False,
                hide_zero=True,
                collation=configuration.collation_of(name),
            )
        options = object_of(options, 'for example {"size": 20}', path)
        check_members(options, FACET_OPTIONS, path)
        found[name] = FacetOptions(
            _overridden(base, options, limits, path),
            _key_query(options.get("query"), limits, path),
            optional_integer(options, "offset", "facet_offset_max", limits, 0, path),
            FacetSummary(
                optional_bool(options, "missing", False, path),
                optional_bool(options, "cardinality", False, path),
                _percentiles(options.get("percentiles"), limits, path),
                _statistics_fields(options.get("stats"), limits, path),
            ),
        )
    return found


def _statistics_fields(value: Any, limits: Limits, path: str) -> tuple[str, ...]:
    """Read the fields whose numbers are summed up by value; `stats` may also be true or false."""
    if value is None or isinstance(value, bool):
        return ()
    shown = limits.shown("value_statistics_max")
    if not isinstance(value, list) or len(value) > limits.value_statistics_max:
        raise Mistake(
            f'must be true, false, or list up to {shown} with numbers: ["price"]',
            path=f"{path}.stats",
        )
    fields = [check_field(one, limits, f"{path}.stats") for one in value]
    return tuple(dict.fromkeys(fields))


def _percentiles(value: Any, limits: Limits, path: str) -> tuple[float, ...]:
    """Read the percentiles requested of a facet's numbers."""
    if value is None:
        return ()
    if (
        not isinstance(value, list)
        or len(value) > limits.percentiles_max
        or not all(type(one) in (int, float) and 0 <= one <= 100 for one in value)
    ):
        shown = limits.shown("percentiles_max")
        raise Mistake(
            f"must list up to {shown} percentiles, such as [50, 95]", path=f"{path}.percentiles"
        )
    return tuple(value)


def _key_query(value: Any, limits: Limits, path: str) -> str | None:
    """Read the words (or prefixes of words) that keys must contain."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > limits.query_chars_max:
        raise Mistake(
            f"must be a text of up to {limits.shown('query_chars_max')} characters",
            path=f"{path}.query",
        )
    return value


def _overridden(
    base: FacetConfiguration, options: dict[str, Any], limits: Limits, path: str
) -> FacetConfiguration:
    """Return a facet's settings overridden by the request's options."""
    sort = base.sort
    if options.get("sort") is not None or options.get("order") is not None:
        parsed = parse_facet_sort(
            options.get("sort"), options.get("order"), base.chosen_filters_on_top
        )
        if isinstance(parsed, str):
            raise Mistake(parsed, path=f"{path}.sort")
        sort = parsed
    collation = base.collation
    if options.get("collation") is not None:
        collation = read_collation(options["collation"], f"{path}.collation")
    return replace(
        base,
        sort=sort,
        collation=collation,
        size=optional_integer(options, "size", "facet_size_max", limits, base.size, path),
        conjunction=optional_bool(options, "conjunction", base.conjunction, path),
        hide_zero=optional_bool(options, "hide_zero", base.hide_zero, path),
        show_facet_stats=base.show_facet_stats
        if isinstance(options.get("stats"), list)
        else optional_bool(options, "stats", base.show_facet_stats, path),
    )
