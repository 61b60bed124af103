"""Every bound that a request, an item or a configuration can run into, with unit and reason.

Every bound is named here: a check takes it from a `Limits` object and names it in the error
(`Limits.shown`); the documentation table and the settings (`FACETD_LIMIT_<NAME>`) are generated
from this class. The limits keep any request from taking unbounded memory, time or disk; each may be
raised, a few only up to what formats have room for.

What the interface itself defines is not a limit: ids of 1-256 bytes, integers of 64 bits,
values of up to `FACET_KEY_BYTES_MAX` bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from common.nearest_name import did_you_mean

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def _limit(default: int, unit: str, reason: str, *, at_most: int | None = None) -> Any:
    """Declare one limit: a dataclass field with unit, reason and largest value."""
    metadata = {"unit": unit, "reason": reason, "at_most": at_most}
    return dataclasses.field(default=default, metadata=metadata)


class LimitDescription(NamedTuple):
    """One row of the documentation table."""

    name: str
    default: int
    unit: str
    reason: str


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits with their defaults; `Limits.from_overrides` applies an operator's own."""

    # --- bodies and addresses
    json_body_bytes_max: int = _limit(
        16 * MIB, "bytes", "JSON body, before and after decompression; it is held in memory"
    )
    bulk_body_bytes_max: int = _limit(
        64 * GIB,
        "bytes",
        "bulk body after decompression; it is spooled to the data directory",
    )
    search_body_bytes_max: int = _limit(
        2 * MIB, "bytes", "body of a search; parsing it blocks all other requests"
    )
    search_body_values_max: int = _limit(
        100_000, "values", "values in the body of a search; decoding them blocks all other requests"
    )
    item_bytes_max: int = _limit(16 * MIB, "bytes", "one item; every process holds it in memory")
    url_bytes_max: int = _limit(
        32 * KIB, "bytes", "request line; send longer requests as a POST body"
    )
    header_bytes_max: int = _limit(8 * KIB, "bytes", "one header")
    headers_max: int = _limit(128, "headers", "headers of one request")
    json_depth_max: int = _limit(
        64,
        "levels",
        "nesting of an item or a body; indexing keeps a stack of that depth",
        at_most=64,
    )

    # --- items
    index_name_chars_max: int = _limit(
        64, "characters", "name of an index; it appears in logs, keys and on pages"
    )
    item_fields_max: int = _limit(
        512,
        "keys",
        "keys of one item, nested ones included; of an array of objects, those of its "
        "largest element",
    )
    index_fields_max: int = _limit(
        2_000,
        "fields",
        "distinct fields of all items of an index; a search over all fields visits each",
        at_most=60_000,
    )
    item_facet_values_max: int = _limit(
        1_000, "elements", "facet values of one item in one facet; searches count each"
    )
    field_name_bytes_max: int = _limit(
        256,
        "UTF-8 bytes",
        "name of a field; it is part of a path in the field registry",
        at_most=256,
    )
    batch_items_max: int = _limit(
        10_000, "items", "items in one POST /{index}/items; use the bulk route for more"
    )

    # --- search parameters
    per_page_max: int = _limit(1_000, "items", "items of one page; all are held in memory")
    facet_per_page_max: int = _limit(10_000, "buckets", "buckets of one page of a facet")
    facet_offset_max: int = _limit(
        10**9, "buckets", "buckets that the option offset of a facet may skip"
    )
    page_max: int = _limit(
        999_999_999, "pages", "page number: nine digits, which keep offsets below 2^53"
    )
    query_chars_max: int = _limit(
        4_096, "characters", "query text: a pasted paragraph, not a pasted book"
    )
    query_words_max: int = _limit(
        256, "words", "words of a query; each is a lookup and a walk through its postings"
    )
    filter_fields_max: int = _limit(
        32, "fields", "fields in filters; each is one set operation per segment"
    )
    filter_values_max: int = _limit(1_024, "values", "values in all filters of one request")
    filter_value_bytes_max: int = _limit(512, "UTF-8 bytes", "one filter value")
    filter_expression_chars_max: int = _limit(16 * KIB, "characters", "one filter expression")
    filter_depth_max: int = _limit(
        32, "levels", "nesting of a filter expression; its evaluation recurses", at_most=100
    )
    filter_conditions_max: int = _limit(
        1_024, "conditions", "conditions and listed values in one filter expression"
    )
    sort_keys_max: int = _limit(16, "keys", "sort keys; each is one column per segment")
    score_buckets_max: int = _limit(1_000, "buckets", "buckets of a sort by _score")
    seed_max: int = _limit(
        999_999_999, "seeds", "seed of a random order: nine digits", at_most=999_999_999
    )
    boosts_max: int = _limit(16, "fields", "boosted fields; each is one column per segment")
    projected_fields_max: int = _limit(
        256, "fields", "fields named by fields, exclude_fields or highlight"
    )
    search_fields_max: int = _limit(64, "fields", "fields named by search_fields")
    facet_ranges_max: int = _limit(
        32, "fields", "fields in facet_ranges; each is a scan of one column"
    )
    range_bounds_max: int = _limit(256, "ranges", "ranges of one field in facet_ranges")
    range_buckets_max: int = _limit(
        50_000,
        "buckets",
        "intervals, dates or cells of one field in facet_ranges; those of a response are added up "
        "and written in short steps, about 60 bytes each",
    )
    field_facets_max: int = _limit(
        16, "fields", "facets of one request that are not in the configuration"
    )
    value_statistics_max: int = _limit(
        8, "fields", "fields summarized per value of one facet in one request"
    )
    facet_cube_bins_max: int = _limit(1_000, "bins", "bins of facet_cube", at_most=10_000)
    facet_cube_counts_max: int = _limit(
        1_000_000,
        "counts",
        "counts of facet_cube: bins times values and intervals of the response; each takes 4 "
        "bytes on a shard and about 6 in JSON",
    )
    percentiles_max: int = _limit(32, "percentiles", "percentiles of one facet in one request")
    geo_corners_max: int = _limit(
        256, "corners", "corners of a polygon; each is compared with every point"
    )
    geo_rings_max: int = _limit(64, "rings", "distance rings of one field in facet_ranges")
    geo_zoom_max: int = _limit(
        24, "levels", "zoom level of a grid; cells of level 24 are 2 m wide", at_most=30
    )
    snippet_words_max: int = _limit(200, "words", "words of one snippet")
    marked_text_bytes_max: int = _limit(
        64 * KIB,
        "bytes",
        "part of one text that highlight and snippet inspect; the rest is not marked",
    )
    marked_page_bytes_max: int = _limit(
        2 * MIB,
        "bytes",
        "texts of one page that highlight and snippet inspect, divided evenly among its "
        "per_page items",
    )
    suggestions_max: int = _limit(
        100, "suggestions", "suggestions in one response; each is counted"
    )
    explained_parts_max: int = _limit(
        64,
        "filters and words",
        "filters and words of a search that an explanation covers; each is searched for separately",
    )
    distinct_max: int = _limit(
        100, "hits", "hits kept per value of the distinct field", at_most=255
    )
    merged_hits_max: int = _limit(
        10_000,
        "hits",
        "last hit that a page of merged searches may reach; each search delivers as many",
    )
    searches_max: int = _limit(64, "searches", "searches of one POST /_search")
    searches_words_max: int = _limit(
        4_096,
        "words",
        "query words of all searches of one POST /_search; a word that may have typos counts "
        "four times",
    )
    searches_buckets_max: int = _limit(
        640_000,
        "buckets",
        "facet buckets of all searches of one POST /_search: as many as one search may have",
    )
    facet_fields_max: int = _limit(10_000, "names", "names in facet_fields, including unknown ones")
    mark_chars_max: int = _limit(64, "characters", "text inserted before or after a marked word")
    cursor_chars_max: int = _limit(
        4 * KIB, "characters", "cursor; it holds the sort values of one hit"
    )
    cursor_states_max: int = _limit(
        256, "states", "index states that cursors keep alive; each retains items deleted since"
    )

    # --- configuration
    configuration_bytes_max: int = _limit(
        4 * MIB, "bytes", "configuration; it is sent to every shard"
    )
    facets_max: int = _limit(
        64, "facets", "facets of a configuration; each is one column per segment"
    )
    facet_size_max: int = _limit(10_000, "buckets", "buckets of one facet in a search")
    searchable_fields_max: int = _limit(
        512, "fields", "searchable fields: as many as an item may have"
    )
    typo_groups_max: int = _limit(8, "lengths", "distinct values in field_typo_lengths")
    suggestion_sources_max: int = _limit(
        16, "fields", "fields and facets that suggestions come from"
    )
    geo_fields_max: int = _limit(8, "fields", "fields of points; each is two columns per segment")
    hierarchies_max: int = _limit(8, "trees", "hierarchies of a configuration")
    hierarchy_levels_max: int = _limit(16, "levels", "levels of one hierarchy; each is a facet")
    nested_fields_max: int = _limit(8, "fields", "nested fields; each has its own columns")
    stop_words_max: int = _limit(10_000, "words", "stop words of a configuration")
    synonyms_max: int = _limit(10_000, "rules", "synonym rules of a configuration")
    rules_max: int = _limit(1_000, "rules", "curation rules of a configuration or a request")
    rule_items_max: int = _limit(
        100, "items", "items that one rule pins or hides; each is one lookup"
    )
    synonym_alternatives_max: int = _limit(64, "alternatives", "synonyms of one word or phrase")

    # --- retention of what clients create
    indexes_max: int = _limit(
        20_000, "indexes", "indexes; each takes some kilobytes in every process"
    )
    aliases_max: int = _limit(1_000, "aliases", "aliases in one change, and in total")
    positions_max: int = _limit(
        16,
        "sources",
        "sources of changes with a stored position, per index; a further one replaces the "
        "least recently updated",
    )
    source_chars_max: int = _limit(
        100, "characters", "name of a source of changes; it is a key on disk", at_most=120
    )
    position_chars_max: int = _limit(1_000, "characters", "position of a source of changes")
    analytics_queries_max: int = _limit(
        5_000,
        "texts",
        "queries counted exactly per day, over all indexes; counts of rarer ones have an "
        "error bound",
    )
    clicks_max: int = _limit(100, "clicks", "clicks in one POST /_analytics/clicks")
    snapshots_max: int = _limit(100, "snapshots", "snapshots; each may be as large as the data")
    keys_max: int = _limit(1_000, "API keys", "API keys; all are held in memory")
    tenant_token_seconds_max: int = _limit(
        86_400,
        "seconds",
        "lifetime of a tenant token, which can only be revoked together with its parent key",
    )

    # --- time and concurrency
    request_timeout_ms: int = _limit(10_000, "ms", "default timeout of a request")
    request_timeout_ms_max: int = _limit(60_000, "ms", "largest timeout that timeout_ms may set")
    body_timeout_ms: int = _limit(
        30_000, "ms", "time for a JSON body to arrive, and for each next part of a bulk body"
    )
    keepalive_timeout_ms: int = _limit(
        75_000, "ms", "time after which an idle connection is closed"
    )
    send_timeout_ms: int = _limit(
        30_000,
        "ms",
        "time without progress after which a client that does not read its response is "
        "disconnected",
    )
    cursor_lease_ms: int = _limit(
        60_000, "ms", "time after a page in which its cursor must be used"
    )
    connections_max: int = _limit(
        4_096, "connections", "connections; each costs a file descriptor and about 20 KiB"
    )
    requests_in_flight_max: int = _limit(
        256, "requests", "requests in flight; further ones get 503 overloaded"
    )
    bytes_in_flight_max: int = _limit(256 * MIB, "bytes", "JSON bodies of all requests in flight")
    bytes_unread_max: int = _limit(
        256 * MIB,
        "bytes",
        "responses that clients are slow to read; beyond it those that have read nothing for "
        "longest are disconnected",
    )
    errors_reported_max: int = _limit(
        100, "errors", "errors listed in one response; all are counted"
    )

    def __post_init__(self) -> None:
        """Refuse anything but positive integers."""
        for field in dataclasses.fields(self):
            value, unit = getattr(self, field.name), field.metadata["unit"]
            if type(value) is not int or value < 1:
                raise ValueError(
                    f"limit {field.name} must be a positive integer ({unit}), not {value!r}"
                )
            at_most = field.metadata["at_most"]
            if at_most is not None and value > at_most:
                raise ValueError(
                    f"limit {field.name} can be at most {at_most} ({unit}), not {value}"
                )

    def shown(self, name: str) -> str:
        """Return a limit as an error message has it: its value, and the setting to change it."""
        return f"{getattr(self, name)} (limit {name})"

    @classmethod
    def from_overrides(cls, overrides: Mapping[str, int]) -> Limits:
        """Build limits with some replaced.

        Raises:
            ValueError: a name is unknown, or a value is not a positive integer; the message says
                what would be valid.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        for name in overrides:
            if name not in known:
                meant = did_you_mean(name, sorted(known)) or "; facetd config lists them all"
                raise ValueError(f"unknown limit {name!r}{meant}")
        return cls(**overrides)

    @classmethod
    def describe(cls) -> Iterator[LimitDescription]:
        """Yield every limit as the documentation and `facetd config` show it."""
        for field in dataclasses.fields(cls):
            default = cast(int, field.default)
            yield LimitDescription(
                field.name, default, field.metadata["unit"], field.metadata["reason"]
            )


DEFAULT_LIMITS = Limits()
