"""The messages between coordinator and shard: one pair of structs per method.

A frame is a MessagePack-RPC array: request `[0, msgid, method, params, request ids, sent at,
timeout]`, response `[1, msgid, error, result]`; `params` and `result` are the structs below,
encoded as arrays. Numeric arrays travel as raw little-endian bytes (numpy `tobytes` /
`frombuffer`), so that neither side walks them in Python.

Which struct belongs to which method is declared in `common.protocol.methods`.
"""

from common.protocol.messages.backup import BackupRequest
from common.protocol.messages.change_source_positions import PositionsRequest, PositionsResponse
from common.protocol.messages.completions_and_near_spellings import TermsRequest, TermsResponse
from common.protocol.messages.facet_value_and_field_name_lookups import (
    FACET_VALUES_MAX,
    FacetValuesRequest,
    FacetValuesResponse,
    FieldNamesRequest,
    FieldNamesResponse,
)
from common.protocol.messages.fingerprint import FingerprintRequest, FingerprintResponse
from common.protocol.messages.given_up_calls import GivenUpCalls
from common.protocol.messages.handshake_and_catalog import (
    CatalogUpdate,
    Hello,
    IndexEntry,
    PrepareConfiguration,
    SnapshotSource,
    Welcome,
)
from common.protocol.messages.host_progress_and_outcomes import (
    GroupOutcomesRequest,
    HostProgress,
    OtherProgress,
)
from common.protocol.messages.item_reads import (
    FetchRequest,
    FetchResponse,
    GetRequest,
    GetResponse,
)
from common.protocol.messages.message import PROTOCOL_VERSION, Message
from common.protocol.messages.monitoring import (
    IndexStatisticsRequest,
    IndexStatisticsResponse,
    OpeningStatistics,
    ProcessStatistics,
)
from common.protocol.messages.newest_write_groups import (
    GroupExtent,
    NewestGroupsRequest,
    NewestGroupsResponse,
)
from common.protocol.messages.search_request import (
    CubeFacet,
    CubeRequest,
    Distinct,
    FacetRequest,
    FilterClause,
    FilterFactor,
    GroupsRequest,
    HighlightRequest,
    Pin,
    RangeRequest,
    SearchRequest,
    SortKey,
    ValueStatisticsRequest,
    elements_of,
)
from common.protocol.messages.search_response import (
    SUM_BITS,
    CubeCounts,
    CubeRange,
    DistinctCounts,
    FacetCounts,
    GroupPairs,
    NumberStatistics,
    RangeCounts,
    SearchResponse,
    ValueStatistics,
)
from common.protocol.messages.text_query_and_statistics import (
    FieldStatistics,
    FieldWeight,
    ScoredClause,
    StatisticsRequest,
    StatisticsResponse,
    TextQuery,
)
from common.protocol.messages.writes_and_outcomes import (
    ApplyRequest,
    ApplyResponse,
    JoinedGroups,
    OutcomesRequest,
    OutcomesResponse,
)

__all__ = [
    "FACET_VALUES_MAX",
    "PROTOCOL_VERSION",
    "SUM_BITS",
    "ApplyRequest",
    "ApplyResponse",
    "BackupRequest",
    "CatalogUpdate",
    "CubeCounts",
    "CubeFacet",
    "CubeRange",
    "CubeRequest",
    "Distinct",
    "DistinctCounts",
    "FacetCounts",
    "FacetRequest",
    "FacetValuesRequest",
    "FacetValuesResponse",
    "FetchRequest",
    "FetchResponse",
    "FieldNamesRequest",
    "FieldNamesResponse",
    "FieldStatistics",
    "FieldWeight",
    "FilterClause",
    "FilterFactor",
    "FingerprintRequest",
    "FingerprintResponse",
    "GetRequest",
    "GetResponse",
    "GivenUpCalls",
    "GroupExtent",
    "GroupOutcomesRequest",
    "GroupPairs",
    "GroupsRequest",
    "Hello",
    "HighlightRequest",
    "HostProgress",
    "IndexEntry",
    "IndexStatisticsRequest",
    "IndexStatisticsResponse",
    "JoinedGroups",
    "Message",
    "NewestGroupsRequest",
    "NewestGroupsResponse",
    "NumberStatistics",
    "OpeningStatistics",
    "OtherProgress",
    "OutcomesRequest",
    "OutcomesResponse",
    "Pin",
    "PositionsRequest",
    "PositionsResponse",
    "PrepareConfiguration",
    "ProcessStatistics",
    "RangeCounts",
    "RangeRequest",
    "ScoredClause",
    "SearchRequest",
    "SearchResponse",
    "SnapshotSource",
    "SortKey",
    "StatisticsRequest",
    "StatisticsResponse",
    "TermsRequest",
    "TermsResponse",
    "TextQuery",
    "ValueStatistics",
    "ValueStatisticsRequest",
    "Welcome",
    "elements_of",
]
