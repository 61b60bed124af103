"""Every bound that a request, an item or a configuration can run into, with unit and reason.

Every bound is named here: a check takes it from a `Limits` object and names it in the error
(`Limits.shown`); the documentation table and the settings (`FACETD_LIMIT_<NAME>`) are generated
from this class. The limits keep any request from taking unbounded memory, time or disk; each may be
raised, a few only up to what formats have room for.

What the interface itself defines is not a limit: ids of 1-256 bytes, integers of 64 bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

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
        16 * MIB, "bytes", "a JSON body is held in memory; counted after decompression too"
    )
    bulk_body_bytes_max: int = _limit(
        64 * GIB,
        "bytes",
        "a bulk body is spooled to the data directory; counted after decompression",
    )
    search_body_bytes_max: int = _limit(
        2 * MIB, "bytes", "parameters of a search; parsing them holds up all other requests"
    )
    search_body_values_max: int = _limit(
        100_000, "values", "in the body of searches; decoding them holds up all other requests"
    )
    item_bytes_max: int = _limit(16 * MIB, "bytes", "one item is held in memory by every process")
    url_bytes_max: int = _limit(32 * KIB, "bytes", "longer requests belong into a POST body")
    header_bytes_max: int = _limit(8 * KIB, "bytes", "of one header")
    headers_max: int = _limit(128, "headers", "of one request")
    json_depth_max: int = _limit(
        64, "levels", "of an item or a body; indexing keeps a stack of that depth", at_most=64
    )

    # --- items
    index_name_chars_max: int = _limit(64, "characters", "a name is shown, logged and kept in keys")
    item_fields_max: int = _limit(
        512,
        "keys",
        "of one item, nested ones included; of an array's elements the one with most counts",
    )
    index_fields_max: int = _limit(
        2_000,
        "fields",
        "of all items of an index together; a search of all fields looks at each",
        at_most=60_000,
    )
    item_facet_values_max: int = _limit(
        1_000, "elements", "of the array of one facet in one item; each is counted by searches"
    )
    field_name_bytes_max: int = _limit(
        256, "UTF-8 bytes", "a key is part of a path in the field registry", at_most=256
    )
    batch_items_max: int = _limit(
        10_000, "items", "of one POST /{index}/items; more belong into the bulk route"
    )

    # --- search parameters
    per_page_max: int = _limit(1_000, "items", "of one page; the items are in memory at once")
    facet_per_page_max: int = _limit(10_000, "buckets", "of one page of a facet")
    facet_offset_max: int = _limit(10**9, "buckets", "skipped by the option offset of a facet")
    page_max: int = _limit(999_999_999, "pages", "nine digits, so that offsets stay below 2^53")
    query_chars_max: int = _limit(4_096, "characters", "a pasted paragraph, not a pasted book")
    query_words_max: int = _limit(256, "words", "each word is one lookup and one posting walk")
    filter_fields_max: int = _limit(32, "fields", "each field is one set operation per segment")
    filter_values_max: int = _limit(1_024, "values", "in all filters of one request together")
    filter_value_bytes_max: int = _limit(512, "UTF-8 bytes", "of one filter value")
    filter_expression_chars_max: int = _limit(16 * KIB, "characters", "of one filter expression")
    filter_depth_max: int = _limit(
        32, "levels", "evaluation of a filter expression recurses", at_most=100
    )
    filter_conditions_max: int = _limit(
        1_024, "conditions", "and listed values in one filter expression"
    )
    sort_keys_max: int = _limit(16, "keys", "each key is one column per segment")
    score_buckets_max: int = _limit(1_000, "buckets", "of one key of sort")
    seed_max: int = _limit(
        999_999_999, "seeds", "of a random order: nine digits", at_most=999_999_999
    )
    boosts_max: int = _limit(16, "fields", "each is one column per segment")
    projected_fields_max: int = _limit(256, "fields", "named by fields, exclude_fields, highlight")
    search_fields_max: int = _limit(64, "fields", "named by search_fields")
    facet_ranges_max: int = _limit(32, "fields", "each is one column scan")
    range_bounds_max: int = _limit(256, "ranges", "of one field of facet_ranges")
    field_facets_max: int = _limit(
        16, "fields", "counted in one request that are not configured as facets"
    )
    value_statistics_max: int = _limit(
        8, "fields", "whose numbers are summed up by value of one facet in one request"
    )
    facet_cube_bins_max: int = _limit(1_000, "bins", "of facet_cube", at_most=10_000)
    facet_cube_counts_max: int = _limit(
        1_000_000,
        "counts",
        "of facet_cube: bins times values and intervals of the response; each takes 4 bytes on a "
        "shard and about 6 in JSON",
    )
    percentiles_max: int = _limit(32, "percentiles", "of one facet in one request")
    geo_corners_max: int = _limit(256, "corners", "of a polygon; each is compared with every point")
    geo_rings_max: int = _limit(64, "rings", "of one field of facet_ranges")
    geo_zoom_max: int = _limit(
        24, "levels", "of a grid; cells of the last are 2 m wide", at_most=30
    )
    snippet_words_max: int = _limit(200, "words", "of one snippet")
    marked_text_bytes_max: int = _limit(
        64 * KIB, "bytes", "of one text that highlight and snippet look at; the rest has no marks"
    )
    marked_page_bytes_max: int = _limit(
        2 * MIB,
        "bytes",
        "of all texts of a page that highlight and snippet look at, the same for each of per_page",
    )
    suggestions_max: int = _limit(100, "suggestions", "of one request; each is counted")
    explained_parts_max: int = _limit(
        64, "filters and words", "of a search that explains an item; each is a search for the item"
    )
    distinct_max: int = _limit(100, "hits", "kept per value of the distinct field")
    merged_hits_max: int = _limit(
        10_000, "hits", "up to the end of a page of merged searches; each search delivers as many"
    )
    searches_max: int = _limit(64, "searches", "of one POST /_search")
    searches_words_max: int = _limit(
        4_096,
        "words",
        "in the queries of one POST /_search together; a word counts four times where it may have "
        "typos",
    )
    searches_buckets_max: int = _limit(
        640_000,
        "buckets",
        "that the facets of one POST /_search may have together: one search with all that it can",
    )
    facet_fields_max: int = _limit(10_000, "names", "in facet_fields, unknown ones included")
    mark_chars_max: int = _limit(64, "characters", "of what stands before and after a marked word")
    cursor_chars_max: int = _limit(4 * KIB, "characters", "a cursor carries one hit's sort values")
    cursor_states_max: int = _limit(
        256, "states", "of indexes kept for cursors; each holds on to what was deleted since"
    )

    # --- configuration
    configuration_bytes_max: int = _limit(4 * MIB, "bytes", "it is sent to every shard")
    facets_max: int = _limit(64, "facets", "in a configuration; each is one column per segment")
    facet_size_max: int = _limit(10_000, "buckets", "of one facet of a search answer")
    searchable_fields_max: int = _limit(512, "fields", "as many as an item may have")
    typo_groups_max: int = _limit(8, "lengths", "that fields have of their own, each once")
    suggestion_sources_max: int = _limit(
        16, "fields", "whose texts, and facets whose values, are suggested"
    )
    geo_fields_max: int = _limit(8, "fields", "of points; each is two columns per segment")
    hierarchies_max: int = _limit(8, "trees", "in a configuration")
    hierarchy_levels_max: int = _limit(16, "levels", "of one tree; each is a facet")
    nested_fields_max: int = _limit(8, "fields", "of objects; each has columns of its own")
    stop_words_max: int = _limit(10_000, "words", "in a configuration")
    synonyms_max: int = _limit(10_000, "rules", "in a configuration")
    rules_max: int = _limit(1_000, "rules", "of curation, in a configuration or a request")
    rule_items_max: int = _limit(100, "items", "pinned or hidden by one rule; each is one lookup")
    synonym_alternatives_max: int = _limit(64, "alternatives", "of one word or phrase")

    # --- what is kept of things that clients make
    indexes_max: int = _limit(20_000, "indexes", "each takes some kilobytes in every process")
    aliases_max: int = _limit(1_000, "aliases", "in one change of aliases, and altogether")
    positions_max: int = _limit(
        16,
        "sources",
        "of changes to an index; a further one replaces the one that wrote least recently",
    )
    source_chars_max: int = _limit(
        100, "characters", "of the name of a source of changes: it is a key on disk", at_most=120
    )
    position_chars_max: int = _limit(1_000, "characters", "of a source's position")
    analytics_queries_max: int = _limit(
        5_000,
        "texts",
        "counted a day for certain, over all indexes; rarer ones may be counted with a bound",
    )
    clicks_max: int = _limit(100, "clicks", "of one POST /_analytics/clicks")
    snapshots_max: int = _limit(100, "snapshots", "each may be as large as the data")
    keys_max: int = _limit(1_000, "API keys", "all are in memory")
    tenant_token_seconds_max: int = _limit(
        86_400, "seconds", "a tenant token cannot be taken back, but with its parent key"
    )

    # --- time and concurrency
    request_timeout_ms: int = _limit(10_000, "ms", "every request is answered within it")
    request_timeout_ms_max: int = _limit(60_000, "ms", "the longest that timeout_ms may ask for")
    body_timeout_ms: int = _limit(
        30_000, "ms", "within which a JSON body must arrive, and each next part of a bulk body"
    )
    keepalive_timeout_ms: int = _limit(75_000, "ms", "an idle connection is closed after it")
    send_timeout_ms: int = _limit(
        30_000, "ms", "in which a client reads nothing of its answer, after which it is let go"
    )
    cursor_lease_ms: int = _limit(
        60_000, "ms", "after a page within which a cursor must be asked for the next one"
    )
    connections_max: int = _limit(4_096, "connections", "each costs a descriptor and some 20 KiB")
    requests_in_flight_max: int = _limit(256, "requests", "more are answered 503 overloaded")
    bytes_in_flight_max: int = _limit(
        256 * MIB, "bytes", "of all JSON bodies being handled at once"
    )
    errors_reported_max: int = _limit(100, "errors", "listed in one answer; all are counted")

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
            ValueError: a name is unknown, or a value is no positive integer; the message says
                what would be valid.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        for name in overrides:
            if name not in known:
                raise ValueError(
                    f"unknown limit {name!r}; the limits are {', '.join(sorted(known))}"
                )
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
