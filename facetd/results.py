"""Results of calls: the service's responses as typed values."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

T = TypeVar("T")


class Bucket(Struct):
    """One value of a facet."""

    key: str
    doc_count: int
    selected: bool = False
    stats: dict[str, FacetStatistics | None] | None = None
    """By field, where `facets` asks for the statistics of its numbers by value."""


class FacetStatistics(Struct):
    """Statistics of numbers: of a facet within the hits, or of a field within a bucket."""

    min: float | None
    max: float | None
    avg: float | None
    sum: float
    count: int


class Facet(Struct):
    """One facet of a response."""

    name: str
    title: str
    position: int
    buckets: list[Bucket]
    facet_stats: FacetStatistics | None = None
    missing: int | None = None
    """Hits without the field, where `facets` asks for it."""
    cardinality: int | None = None
    percentiles: dict[str, float | None] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Number of items by value, in the order of the response."""
        return {bucket.key: bucket.doc_count for bucket in self.buckets}


class TreeNode(Struct):
    """A node of a tree; its path selects it in filters."""

    key: str
    path: str
    doc_count: int
    selected: bool = False
    children: list[TreeNode] = []


class Pagination(Struct):
    """The position of a page among all hits."""

    per_page: int
    page: int
    total: int
    cursor: str | None = None


class Shards(Struct):
    """How many shards responded."""

    total: int
    ok: int
    failed: int


class Meta(Struct):
    """Metadata of a response."""

    request_id: str
    seq: int
    took_us: int
    shards: Shards
    ignored_words: list[str] = []
    dropped_words: list[str] = []
    """Function words that no item had to have: the search had no hit with them."""
    warnings: list[str] = []
    """Names of fields that no item has, and what was probably meant."""
    rules: list[str] = []
    """Names of the rules that applied."""
    rule_data: list[dict[str, Any]] = []
    """Data of the rules that applied and have some."""
    match: str | None = None
    """How words matched, where that was `auto`."""
    words_cut: int = 0
    """Words at the end of the query that were dropped, as it has too many."""
    did_you_mean: str | None = None
    """The query in another spelling."""
    timings_us: dict[str, int] | None = None


class SearchData(Struct):
    """Hits and counts."""

    items: list[dict[str, Any]]
    aggregations: dict[str, Facet] = {}
    ranges: dict[str, list[dict[str, Any]]] = {}
    trees: dict[str, list[TreeNode]] = {}
    facet_cube: dict[str, Any] | None = None


class SearchPage(Struct):
    """One page of hits, and facets."""

    pagination: Pagination
    data: SearchData
    meta: Meta

    @property
    def items(self) -> list[dict[str, Any]]:
        """The hits."""
        return self.data.items

    @property
    def total(self) -> int:
        """Exact number of hits."""
        return self.pagination.total

    @property
    def facets(self) -> dict[str, Facet]:
        """Facets by field."""
        return self.data.aggregations

    @property
    def ranges(self) -> dict[str, list[dict[str, Any]]]:
        """Counts by interval, by field."""
        return self.data.ranges

    @property
    def trees(self) -> dict[str, list[TreeNode]]:
        """Top nodes of each tree."""
        return self.data.trees

    @property
    def facet_cube(self) -> dict[str, Any] | None:
        """Joint counts of a numeric field with the facets."""
        return self.data.facet_cube

    @property
    def cursor(self) -> str | None:
        """Cursor of the next page, on the same state of the index."""
        return self.pagination.cursor


class SearchPages(Struct):
    """Responses to several searches: of each its page, or its error."""

    results: list[Raw]


class FailedSearch(Struct):
    """The error of one of several searches; None if it succeeded."""

    error: dict[str, Any] | None = None


class Suggestion(Struct):
    """One completion or correction of the typed text."""

    text: str
    source: str
    """word, field, facet or search."""
    count: int
    """Items that have the facet value; else those that have all words of the text."""
    field: str | None = None
    """Source of the value or text."""


class Suggestions(Struct):
    """The list of a response."""

    suggestions: list[Suggestion]


class SuggestionPage(Struct):
    """Suggestions for a text, the best first."""

    data: Suggestions


class Explanation(Struct):
    """How a search treats one item."""

    id: int | str
    is_hit: bool
    reasons: list[dict[str, Any]]
    """The reasons why the item is not a hit: filters, words, rules, the threshold."""
    score: float | None = None
    score_details: dict[str, Any] | None = None


class ExplanationPage(Struct):
    """The explanation of one item."""

    data: Explanation


class FacetPage(Struct):
    """One page of the values of a facet."""

    pagination: Pagination
    data: Facet
    meta: Meta

    @property
    def buckets(self) -> list[Bucket]:
        """The values."""
        return self.data.buckets

    @property
    def total(self) -> int:
        """Number of all values that match."""
        return self.pagination.total


class WriteResult(Struct):
    """The outcome of a write, which is durable, searchable and counted by now."""

    status: str
    created: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0
    errors: list[dict[str, Any]] = []
    seq: int = 0
    warnings: list[str] = []
    """How many items have no id."""


class ConfigurationResult(Struct):
    """The outcome of a configuration change."""

    status: str
    warnings: list[str] = []
    changes: list[dict[str, Any]] = []


def decoded(content: bytes | Raw, kind: type[T]) -> T:
    """Decode a response as the given type.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: it does not match.
    """
    return msgspec.json.decode(content, type=kind)
