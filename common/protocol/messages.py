"""The messages between coordinator and shard: one pair of structs per method.

A frame is a MessagePack-RPC array: request `[0, msgid, method, params, request ids, sent at,
timeout]`, response `[1, msgid, error, result]`; `params` and `result` are the structs below,
encoded as arrays. Numeric arrays travel as raw little-endian bytes (numpy `tobytes` /
`frombuffer`), so that neither side walks them in Python.

Which struct belongs to which method is declared in `common.protocol.methods`.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from common.boosts import Boost
from common.errors import InvalidRequest
from common.query import Clause, Filter, Same, Word

PROTOCOL_VERSION = 14

SUM_BITS = 1126
"""Exact sums of doubles travel as multiples of 2^-SUM_BITS: every double is one."""


class Message(Struct, frozen=True, array_like=True):
    """Base of all messages: immutable, encoded as an array of its fields."""


# --- connection ---------------------------------------------------------------------------------


class Hello(Message, frozen=True, array_like=True):
    """The coordinator's first frame."""

    protocol_version: int
    secret: str
    """Never the secret itself: a proof of knowing it (`common.protocol.handshake`)."""
    shard: int
    num_shards: int
    is_reader: bool = False
    """Whether it only reads, next to the coordinator that owns the shards."""


class SnapshotSource(Message, frozen=True, array_like=True):
    """Location of a new index's items: in a snapshot, as those of another index."""

    folder: str
    """Folder of the snapshot; all processes see it."""
    number: int
    """Number of the index in the snapshot."""
    seq: int
    """Number of the newest write group in it; shards continue from there."""
    files: tuple[tuple[int, str], ...]
    """Size and checksum of data.mdb, by shard."""


class IndexEntry(Message, frozen=True, array_like=True):
    """One index of the catalog."""

    number: int
    """Names the folder on disk; never reused for another index."""
    name: str
    revision: int
    """Grows with every accepted configuration."""
    configuration: dict[str, Any]
    """The document as posted."""
    source: SnapshotSource | None = None
    """A shard that lacks the index makes it of this, not empty."""

    def without_source(self) -> IndexEntry:
        """Return what is kept of the index when a shard has it."""
        return self if self.source is None else structs.replace(self, source=None)


class Welcome(Message, frozen=True, array_like=True):
    """The shard's response to `hello`."""

    pid: int
    seq_max: int
    """The highest write sequence on disk, over all indexes of the shard."""
    proof: str = ""
    """Proof that the shard knows the secret too."""


class CatalogUpdate(Message, frozen=True, array_like=True):
    """All indexes that exist; a shard creates, drops and re-configures until it agrees.

    Or what has changed since a revision that the shard has; at another one it refuses.
    """

    revision: int
    indexes: tuple[IndexEntry, ...]
    """All, or those that are new or reconfigured since `base`."""
    base: int | None = None
    gone: tuple[int, ...] = ()
    """Numbers of the indexes that were dropped since `base`."""


class PrepareConfiguration(Message, frozen=True, array_like=True):
    """Build what the entry's revision needs beyond the active one, without switching to it.

    The switch happens with the next `catalog` that names the revision. A prepared revision that
    the next catalog does not name is discarded.
    """

    entry: IndexEntry
    horizon: int = 0
    """The oldest state of the index that any request still uses."""


# --- statistics and search ----------------------------------------------------------------------


class StatisticsRequest(Message, frozen=True, array_like=True):
    """Ask for the statistics of all live documents that scoring needs."""

    index: int
    horizon: int
    revision: int
    words: tuple[Word, ...]
    filters: tuple[Filter, ...] = ()
    """Documents that do not pass all of them are ignored."""
    needs_fields: bool = True
    """Whether to return the fields too; they are the same for all words."""
    spacings: tuple[tuple[str, ...], ...] = ()
    """Words, and sequences of words, to count as well."""
    wholes: tuple[tuple[str, ...], ...] = ()
    """Texts (their words) to count as whole fields."""
    cuts: tuple[str, ...] = ()
    """Words to count where they are written as two, cut anywhere."""


class FieldStatistics(Message, frozen=True, array_like=True):
    """Lengths of one text field over the live documents of a shard."""

    path: str
    num_docs: int
    """Documents that have at least one word in the field."""
    total_length: int
    """Sum of the *quantized* lengths, so that it does not depend on history."""


class StatisticsResponse(Message, frozen=True, array_like=True):
    """Additive over shards, and over segments: live documents only."""

    num_docs: int
    fields: tuple[FieldStatistics, ...]
    """Text fields by path; empty if not requested, as `scalar_fields`."""
    doc_freqs: tuple[tuple[int, ...], ...]
    """Per word of the request: sum of document frequencies of its matching terms, by `MatchKind`.
    """
    scalar_fields: tuple[str, ...]
    """Paths of fields that have, or had, scalar values: they can be sorted and filtered."""
    scalar_kinds: tuple[int, ...] = ()
    """Per path: bit set of the `ValueKind` of its values."""
    spacing_freqs: tuple[int, ...] = ()
    """Per spacing of the request: documents that have the word, or the words next to each other."""
    whole_freqs: tuple[int, ...] = ()
    """Per text of the request: documents that have a field which consists of it."""
    cut_freqs: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Per word to cut: pairs of the number of characters of the first part and the documents (some)
    that have both parts next to each other."""
    near_words: tuple[tuple[tuple[int, str, int], ...], ...] = ()
    """Per word of the request: kind (TYPO_1, TYPO_2), term and documents of the terms that it may
    be a misspelling of; none if a document of the shard has it in a better way."""

    @property
    def has_any(self) -> bool:
        """Whether any document has one of the spacings, whole texts or cut words."""
        return any(self.spacing_freqs) or any(self.whole_freqs) or any(self.cut_freqs)


class TermsRequest(Message, frozen=True, array_like=True):
    """Ask for the words of the index near a text, with the number of items that have them.

    Only live documents count that pass all filters and have all of `words`.
    """

    index: int
    horizon: int
    revision: int
    text: str = ""
    """Folded word, or the beginning of one; empty: no words are requested, see `counted`."""
    is_prefix: bool = False
    """Whether to return words that begin with the text, not just the text itself."""
    typos: int = 0
    """Edits allowed: 0, 1 or 2."""
    words: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    num_terms: int = 0
    """About how many of the most frequent words to return; with typos, all."""
    counted: tuple[tuple[str, ...], ...] = ()
    """Instead: sets of words; count the documents that have all words of a set."""


class TermsResponse(Message, frozen=True, array_like=True):
    """Words near a text, or the counts of the request's sets."""

    terms: tuple[str, ...]
    counts: tuple[int, ...]
    """Documents, by term or by set; greater than 0 for a term."""
    distances: tuple[int, ...] = ()
    """Edits between the text and each term."""
    bound: int = 0
    """No term that is left out has more documents here."""


class FieldWeight(Message, frozen=True, array_like=True):
    """A searchable field as one query sees it."""

    path: str
    weight: float
    average_length: float


class ScoredClause(Message, frozen=True, array_like=True):
    """A clause with the weights that the coordinator derived from the statistics of all shards."""

    clause: Clause
    weights: tuple[tuple[float, ...], ...]
    """Per word of the clause (one for a Word), by `MatchKind`: idf times kind factor; 0 where the
    kind is not used.
    """


class TextQuery(Message, frozen=True, array_like=True):
    """The scored text part of a search."""

    clauses: tuple[ScoredClause, ...]
    required: int
    """How many of the clauses must match, at least (len(clauses): all)."""
    is_leading: bool
    """Whether the clauses that match must be the first ones (match: last)."""
    excluded: tuple[Clause, ...]
    fields: tuple[FieldWeight, ...]
    k1: float
    b: float
    proximity: float
    """Largest relative proximity score; 0 switches it off."""
    whole: tuple[str, ...] = ()
    """The words of the query, if a field that consists of them gets a bonus."""


class FilterClause(Message, frozen=True, array_like=True):
    """One filter of the conjunction that a hit must pass."""

    filter: Filter
    facet: str | None = None
    """The disjunctive facet whose own counts leave this clause out; None counts for all."""


class FacetRequest(Message, frozen=True, array_like=True):
    """Counts of one facet."""

    field: str
    leaves_out_own: bool
    """Whether clauses marked with this facet are left out (disjunctive)."""
    num_alive_wanted: int
    """Send `alive` when fewer values than this have a count here (0: never; a huge number: always).
    """
    within: Same | None = None
    """Count only values of elements that pass; then the clauses that are left out are those marked
    with `elements_of` its field.
    """
    wants_missing: bool = False
    """Whether to count the documents without a value as well."""


def elements_of(field: str) -> str:
    """Return what the clauses on elements of a nested field are marked with: no field's name."""
    return f"{field}{{}}"


class RangeRequest(Message, frozen=True, array_like=True):
    """Counts of documents by interval of one scalar field (from inclusive, to exclusive)."""

    field: str
    bounds: tuple[tuple[float | int | str | None, float | int | str | None], ...] = ()
    interval: float | int | None = None
    """Histogram: bucket number floor(value / interval); an integer if it is whole and below 2^53,
    which then counts integers exactly."""
    calendar: str | None = None
    """Buckets of dates and times: year, quarter, month, week, day, hour, or a span such as 6h."""
    leaves_out_own: bool = True
    origin: tuple[float, float] | None = None
    """Latitude and longitude that `rings` are around."""
    rings: tuple[float, ...] = ()
    """Distances in metres, ascending: ring i is from the i-th to below the next; the last one is
    open.
    """
    zoom: int | None = None
    """Cells of a grid of 2^zoom columns and as many rows over the earth."""
    time_zone: str | None = None
    """Time zone of a calendar; None: that of each value."""
    wants_missing: bool = False
    """Whether to count the documents without the field as well."""
    tree: str | None = None
    """The tree whose nodes are counted: the values of `field`, and what they lie under. Clauses
    marked with its name are ignored.
    """
    separator: str = ""
    """Separates the names of a node's path; empty: only the values themselves are counted."""
    parents: tuple[str, ...] | None = None
    """Only children of these nodes are reported; "" has those at the top. None: all nodes are."""
    parent_separator: str = ""
    """Separates the path of a node's parent from its name; of `parents`."""
    is_of_values: bool = False
    """The values of a field that is no facet are counted, by facet key; `wants_missing` then counts
    the documents without one."""
    within: Same | None = None
    """As in `FacetRequest`, for `bounds` and `interval`."""


class ValueStatisticsRequest(Message, frozen=True, array_like=True):
    """Statistics of numbers within the documents that have each of some values of a facet."""

    facet: FacetRequest
    keys: tuple[str, ...]
    """The values."""
    fields: tuple[str, ...]
    """The field that has the numbers."""


class CubeFacet(Message, frozen=True, array_like=True):
    """One facet of a `CubeRequest`."""

    facet: FacetRequest
    """Or a field that is not a facet; its values are counted like a facet's."""
    keys: tuple[str, ...]
    """The values to count."""


class CubeRequest(Message, frozen=True, array_like=True):
    """Joint counts: how many matches in each bin of a field have each value of others."""

    field: str
    edges: tuple[int | float, ...]
    """Ascending, two or more: bin i is [edge i, edge i + 1)."""
    facets: tuple[CubeFacet, ...]
    ranges: tuple[RangeRequest, ...]
    counts_max: int
    """More counts than this are an error."""

    @property
    def num_bins(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1

    def too_many_counts(self) -> InvalidRequest:
        """Return the error about more counts than `counts_max`."""
        return InvalidRequest(
            f"facet_cube would have more than {self.counts_max} counts (facet_cube_counts_max), "
            "bins times values and intervals: ask for fewer bins, smaller facets, or wider "
            "intervals",
            code="invalid_facet_cube",
            param="facet_cube",
        )


class SortKey(Message, frozen=True, array_like=True):
    """One key of the order: a field's values, the score, or a random number."""

    field: str | None
    """None: the score, or with a seed a random number."""
    is_descending: bool = False
    is_missing_first: bool = False
    point: tuple[float, float] | None = None
    """Latitude and longitude: the order is by the distance of the field's nearest point."""
    within: Same | None = None
    """The order is by the least number (descending: the greatest) of the elements that pass."""
    num_buckets: int = 0
    """Number of equal steps to which the score is rounded down; 0: it is not."""
    bucket_height: float = 0.0
    """Height of one step; known when the best score is."""
    seed: int | None = None
    """Names the random order."""
    collation: str = ""
    """Collation of texts; empty: by code point."""

    @property
    def is_score(self) -> bool:
        """Whether scores are compared."""
        return self.field is None and self.seed is None


class Distinct(Message, frozen=True, array_like=True):
    """Keep only the best `limit` hits per value of the field; see `shard.collect.distinct`."""

    field: str
    limit: int = 1
    counts_groups: bool = False
    """Whether facets count values of the field, not hits; a hit without a value counts as one."""


class GroupsRequest(Message, frozen=True, array_like=True):
    """Ask for the hits of some values of the `distinct` field."""

    tokens: bytes
    """uint64 per value, ascending."""


class Pin(Message, frozen=True, array_like=True):
    """An item that is a hit whether or not it has the words, at a fixed position."""

    id: str
    """Canonical id of the item."""
    position: int
    """Among all hits, from 1."""
    rule: str
    """Name of the rule that set it."""


class FilterFactor(Message, frozen=True, array_like=True):
    """A factor on the scores of the items that pass a filter."""

    filter: Filter
    factor: float
    rule: str
    """Name of the rule that set it."""


class SearchRequest(Message, frozen=True, array_like=True):
    """One search over one snapshot of the shard's partition."""

    index: int
    horizon: int
    revision: int
    query: TextQuery | None
    filters: tuple[FilterClause, ...]
    facets: tuple[FacetRequest, ...]
    ranges: tuple[RangeRequest, ...]
    sort: tuple[SortKey, ...]
    """Explicit keys; ties are broken by score (with a query), then by insertion number."""
    is_place_descending: bool
    """Newest first, where there is neither a sort key nor a query."""
    num_hits: int
    """How many of the best hits to return (offset + limit)."""
    num_documents: int
    """How many of these to return with their stored bytes (0: keys only)."""
    after: tuple[Any, ...] | None = None
    """Sort values, score and insertion number of the last hit seen: return only hits after it."""
    distinct: Distinct | None = None
    wants_explanation: bool = False
    wants_elements: bool = False
    """Whether to say which elements of nested fields have passed the filters."""
    ids: tuple[bytes, ...] = ()
    """If not empty: only items with these (canonical) ids can match."""
    boosts: tuple[Boost, ...] = ()
    """What the score is multiplied by, in this order; without a query it is 1 at first."""
    timestamp: int = 0
    """Start of the search, in seconds since 1970: boosts by age count from it."""
    min_score: float | None = None
    """Items below it are no hits."""
    factors: tuple[FilterFactor, ...] = ()
    """Factors that apply to the score after all boosts."""
    pins: tuple[Pin, ...] = ()
    """Pinned items that pass the filters are hits too."""
    has_pins_apart: bool = False
    """Whether pinned hits come in `SearchResponse.pinned`, not among the others."""
    value_statistics: tuple[ValueStatisticsRequest, ...] = ()
    wants_distinct_values: bool = False
    """Whether `SearchResponse.distinct` names the values, so that shards can be added up."""
    groups: GroupsRequest | None = None
    """With `distinct`: return only hits of these values, and the number of each."""
    assumed_absent: StatisticsRequest | None = None
    """Spacings that the query's weights ignore, in the expectation that no document has them. A
    shard that has any of them does not search; all return their counts."""
    cube: CubeRequest | None = None
    terms: TermsRequest | None = None
    """Words to list as well, whatever the hits are; saves a separate message."""
    wants_total: bool = True
    """Whether `SearchResponse.total` counts all hits. If not, it says only that there are more than
    those sent, and a shard need not find them."""
    needs_scores: bool = True
    """Whether the weights of the query mean more than which kinds of match there are. If not, hits
    have no scores, and equal sort values are in order of insertion."""

    @property
    def has_scores(self) -> bool:
        """Whether hits have a score, which orders them or decides ties.

        Without a query, another order has none, even if `min_score` uses boosts.
        """
        if not self.needs_scores:
            return False
        if self.query is not None or not self.is_boosted:
            return self.query is not None
        return any(key.is_score for key in self.sort) if self.sort else not self.is_place_descending

    @property
    def is_boosted(self) -> bool:
        """Whether something multiplies scores."""
        return bool(self.boosts or self.factors)


class FacetCounts(Message, frozen=True, array_like=True):
    """The counts of one facet, by the shard's value numbers."""

    field: str
    epoch: int
    """Changes when the numbering starts over (a rebuild)."""
    num_values: int
    """Length of the shard's dictionary as of this snapshot."""
    alive: bytes | None
    """Bit i (little-endian bit order) is set when value i belongs to a live document."""
    num_missing: int = 0
    """Documents without a value, if requested."""


class RangeCounts(Message, frozen=True, array_like=True):
    """Counts of one RangeRequest: by position of `bounds`, or by bucket key."""

    field: str
    keys: tuple[int | float | str, ...]
    counts: tuple[int, ...]
    num_missing: int = 0
    """Documents without the field, if requested."""


class NumberStatistics(Message, frozen=True, array_like=True):
    """Statistics of one field's numbers, by position in `ValueStatisticsRequest.keys`."""

    counts: tuple[int, ...]
    least: tuple[int | float | None, ...]
    greatest: tuple[int | float | None, ...]
    sums: tuple[bytes, ...]
    """Exact, in units of 2^-`SUM_BITS`: signed integers, big-endian."""


class ValueStatistics(Message, frozen=True, array_like=True):
    """The response to one ValueStatisticsRequest."""

    fields: tuple[NumberStatistics, ...]
    """In the order of the request's fields."""


class CubeRange(Message, frozen=True, array_like=True):
    """Joint counts of one range, or tree."""

    keys: tuple[int | float | str, ...]
    """As in `RangeCounts`, in any order."""
    counts: bytes
    """uint32 by key and bin."""
    missing: bytes
    """uint32 by bin: documents without the field, if requested."""


class CubeCounts(Message, frozen=True, array_like=True):
    """The response to a CubeRequest: uint32 by bin, or by key and bin."""

    total: bytes
    facets: tuple[bytes, ...]
    ranges: tuple[CubeRange, ...]


class DistinctCounts(Message, frozen=True, array_like=True):
    """How many distinct hits a shard has; pinned ones are counted separately."""

    total: int
    num_missing: int
    """Hits without a value."""
    hit_tokens: bytes
    """uint64 per hit of the response: the same number for a value on all shards, `NO_TOKEN` of
    `common.values` without one."""
    tokens: bytes = b""
    """uint64 per value, ascending."""
    counts: bytes = b""
    """uint8 per value: its distinct hits here."""
    sizes: bytes = b""
    """int64 per token of `SearchRequest.groups`: all hits of the value."""


class GroupPairs(Message, frozen=True, array_like=True):
    """Which values of a facet occur together with which values of the `distinct` field."""

    codes: bytes
    """uint32 per pair: the shard's number of the facet's value + 1; 0: the hit has none."""
    tokens: bytes
    """uint64 per pair; empty: the pairs are added up, as no other shard has any."""
    counts: bytes = b""
    """uint32 per code, where the pairs are added up."""


class SearchResponse(Message, frozen=True, array_like=True):
    """The result of one shard; hits best first."""

    total: int
    places: bytes
    """uint64 per hit."""
    scores: bytes
    """float64 per hit; empty without a query."""
    records: bytes
    """uint64 per hit: record number, names the stored document for `fetch`."""
    sort_values: tuple[tuple[Any, ...], ...]
    """Per sort key (not per hit): the value of each hit, None where missing; empty without sort
    keys.
    """
    documents: tuple[bytes, ...]
    """Stored bytes of the first `num_documents` hits."""
    facets: tuple[FacetCounts, ...]
    ranges: tuple[RangeCounts, ...]
    explanations: tuple[Any, ...]
    timings_us: tuple[int, int, int]
    """Microseconds for matching, facets, sorting."""
    facet_counts: bytes = b""
    """The counts of all `facets`, in their order; see `packed_counts`."""
    elements: tuple[dict[str, list[int]], ...] = ()
    """Per hit, by nested field: positions of the elements that passed; empty unless requested."""
    pinned: SearchResponse | None = None
    """The pinned hits, which are not among the others, with places, scores, records, sort values,
    documents and explanations; `total` counts both kinds."""
    pin_numbers: tuple[int, ...] = ()
    """Position of each pinned hit in `SearchRequest.pins`, ascending."""
    distinct: DistinctCounts | None = None
    """None without `distinct`; `total` then still counts all hits. The best distinct hits of all
    shards are among each shard's."""
    value_statistics: tuple[ValueStatistics, ...] = ()
    facet_groups: tuple[GroupPairs, ...] = ()
    """Where facets count groups: by facet, the pairs to count in addition to `facet_counts`, which
    count hits without a value of the `distinct` field."""
    statistics: StatisticsResponse | None = None
    """Statistics of `SearchRequest.assumed_absent`, if given."""
    cube: CubeCounts | None = None
    terms: TermsResponse | None = None
    """The words of `SearchRequest.terms`, if given and the shard has searched."""
    num_pinned: int = 0
    """How many hits are pinned, separate or not."""

    @property
    def num_apart(self) -> int:
        """How many pinned hits are not among the others."""
        return len(self.pin_numbers)


class HighlightRequest(Message, frozen=True, array_like=True):
    """Ask to highlight the fetched documents."""

    highlight_fields: tuple[str, ...] | None
    """None: none; ("*",): every searchable field."""
    snippet_fields: tuple[tuple[str, int], ...]
    """Path and number of words."""
    pre: str
    post: str
    ellipsis: str
    text_bytes_max: int
    """Bytes of each text that are scanned; the rest has no highlights."""
    item_bytes_max: int
    """Bytes of all texts of an item together."""


class FetchRequest(Message, frozen=True, array_like=True):
    """Stored bytes of records that a search of the same horizon named."""

    index: int
    horizon: int
    revision: int
    """Only highlights depend on it."""
    records: bytes
    """uint64."""
    query: TextQuery | None = None
    highlight: HighlightRequest | None = None
    sort: tuple[SortKey, ...] = ()
    """Fields whose values to return instead of the documents."""
    bytes_max: int = 0
    """Not 0: send the first ones, up to the one with which they reach this size, and None for a
    damaged one. 0: send all; a damaged one fails the call."""
    wants_ids: bool = False
    """With `bytes_max`: send the ids, not the items."""


class FetchResponse(Message, frozen=True, array_like=True):
    """Documents in the order of the request; with `bytes_max` possibly only the first ones."""

    documents: tuple[bytes | None, ...]
    """Or ids as JSON, empty where an item has none."""
    marks: tuple[dict[str, Any], ...]
    """Per document {"_highlight": …, "_snippet": …}; empty when none was requested."""
    sort_values: tuple[tuple[Any, ...], ...] = ()
    """Per sort key (not per document): the value of each document, None where missing."""


class GetRequest(Message, frozen=True, array_like=True):
    """One document by its external id."""

    index: int
    horizon: int
    id: bytes
    """Canonical UTF-8 text of the id."""


class GetResponse(Message, frozen=True, array_like=True):
    """The stored bytes, or None."""

    document: bytes | None


# --- writes -------------------------------------------------------------------------------------


class ApplyRequest(Message, frozen=True, array_like=True):
    """A group of operations on one index, applied in order, in one commit, seen at once.

    Operation i has `lengths[i]` bytes of `payload`: an item as JSON (PUT, REPLACE, MERGE) or an
    id as text (DELETE).
    """

    index: int
    seq: int
    """Names the snapshot that this group makes; greater than that of every earlier group."""
    horizon: int
    """Every later search has at least this horizon: older snapshots may be dropped."""
    payload: bytes
    lengths: bytes
    """uint32 per operation."""
    operations: bytes
    """uint8 per operation: `Operation`."""
    places: bytes
    """uint64 per operation: the insertion number of the item if it is new."""
    versions: dict[int, bytes] = {}
    """Precondition by operation: 8-byte xxh64 of the stored bytes that must be there."""
    records: dict[int, int] = {}
    """Precondition by operation: record that must be the item's. A DELETE with an empty id removes
    that record, whatever its id: it is damaged."""
    positions: dict[str, str] = {}
    """By source of changes: how far it has come with this group; empty: forget it. Every shard gets
    them, even without operations."""
    is_repeat: bool = False
    """Whether the group may have been applied long ago: then the answer has no outcomes."""

    def with_payload(self, payload: memoryview) -> ApplyRequest:
        """Return the request with a payload that came as an attachment (writable memory)."""
        return structs.replace(self, payload=payload)


class ApplyResponse(Message, frozen=True, array_like=True):
    """The outcome of each operation."""

    outcomes: bytes
    """uint8 per operation: `Outcome`."""
    text_ids: tuple[int, ...] = ()
    """Operations that deleted an item whose id, all digits, was stored as a text."""


class OutcomesRequest(Message, frozen=True, array_like=True):
    """Ask for the outcomes of a write group whose response was lost."""

    index: int
    seq: int


class OutcomesResponse(Message, frozen=True, array_like=True):
    """Outcomes from the shard's log of groups."""

    is_known: bool
    """False: the log does not reach back that far."""
    outcomes: bytes
    """uint8 per operation: `Outcome`; empty: the group was not applied, and never will be."""


class GroupOutcomesRequest(Message, frozen=True, array_like=True):
    """Ask another host for the outcomes of a group of the log on one of its shards."""

    index: int
    seq: int
    shard: int


class HostProgress(Message, frozen=True, array_like=True):
    """Reports this host's progress to another, and asks for its progress."""

    address: str
    """Address of the asking host."""
    held: int
    """The oldest state that requests there still use, or may begin to use; -1: none, as that host
    does not serve yet."""
    applied: int
    """What the host that asks knows; the answer may wait until there is more."""
    prepared: int


class OtherProgress(Message, frozen=True, array_like=True):
    """The progress of a host."""

    applied: int
    """Entry of the log up to which it has applied everything on all its shards."""
    prepared: int
    """Newest change of the catalog that it could put in force at once."""
    kept_from: dict[int, int]
    """By shard that serves there: the oldest state that it surely has."""


class PositionsRequest(Message, frozen=True, array_like=True):
    """Ask how far the sources of changes of an index have come."""

    index: int


class PositionsResponse(Message, frozen=True, array_like=True):
    """Positions that this shard has on disk."""

    positions: dict[str, tuple[int, str]]
    """By source: seq of the group that brought its position, and the position."""


FACET_VALUES_MAX: Final = 2_000
"""In a `FacetValuesResponse`: reading and learning them takes half a millisecond each."""


class FacetValuesRequest(Message, frozen=True, array_like=True):
    """The next values of a facet dictionary."""

    index: int
    field: str
    epoch: int
    start: int


class FacetValuesResponse(Message, frozen=True, array_like=True):
    """Values `start`… of the dictionary of `epoch` (which may be newer: then start is 0).

    There may be more: a response has up to `FACET_VALUES_MAX`.
    """

    epoch: int
    start: int
    values: tuple[str, ...]


class FieldNamesRequest(Message, frozen=True, array_like=True):
    """Ask for the fields that one index has on this shard."""

    index: int


class FieldNamesResponse(Message, frozen=True, array_like=True):
    """The fields that one index has on this shard, by their numbers."""

    paths: tuple[str, ...]


class FingerprintRequest(Message, frozen=True, array_like=True):
    """Ask for a number that follows from the items of a state, and from nothing else."""

    index: int
    horizon: int


class FingerprintResponse(Message, frozen=True, array_like=True):
    """What identifies the items of one state on this shard, in whatever order they are stored."""

    num_items: int
    num_damaged: int
    """Damaged items; not in `fingerprint`."""
    fingerprint: int
    """Sum over all items of xxh3_64(bytes, seed=place), modulo 2**64."""


class IndexStatisticsRequest(Message, frozen=True, array_like=True):
    """Sizes and shape of one index on this shard."""

    index: int


class IndexStatisticsResponse(Message, frozen=True, array_like=True):
    """Sizes and shape of one index on this shard."""

    num_docs: int
    num_records: int
    bytes_on_disk: int
    segments: tuple[dict[str, Any], ...]
    fields: tuple[dict[str, Any], ...]
    """Per field {"path", "num_docs", "kinds"}; num_docs may count deleted documents not yet merged
    away.
    """
    is_merging: bool
    map_bytes_used: int
    map_bytes_max: int
    map_readers: int = 0
    """Slots of LMDB's reader table that were ever taken; one that never comes free keeps pages."""
    num_merges: int = 0
    """Merge steps since the process opened the index."""
    merging_us: int = 0
    """Microseconds that they took together."""


class ProcessStatistics(Message, frozen=True, array_like=True):
    """Statistics of the shard process."""

    pid: int
    resident_bytes: int
    queue_length: int
    num_corrupt: int
    is_ready: bool
    indexes: tuple[tuple[int, IndexStatisticsResponse], ...]
    cache_bytes: dict[str, int] = {}
    """Sizes of the caches of derived values, by kind."""
    allocated_bytes: int = 0
    python_blocks: int = 0


class OpeningStatistics(Message, frozen=True, array_like=True):
    """Progress of a shard's start."""

    num_indexes: int
    num_open: int
    num_records: int
    """Stored items to be indexed again, because no segment has them."""
    num_built: int
    """How many of these are indexed."""
    is_ready: bool = False
    """Whether it has taken a catalog."""


class BackupRequest(Message, frozen=True, array_like=True):
    """Write a consistent copy of the shard's truth at a horizon into a directory."""

    directory: str
    horizons: dict[int, int] = {}
    """By index: the copy omits groups after it; an index without one is copied whole."""
    only: int | None = None
    """The only index to copy."""
