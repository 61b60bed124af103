"""The methods of a shard, each declared once: its name, its params, its result.

Handlers and callers both take them from here, so the type checker knows what a call returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any, Final, Generic, TypeVar

import msgspec

from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    BackupRequest,
    CatalogUpdate,
    FacetValuesRequest,
    FacetValuesResponse,
    FetchRequest,
    FetchResponse,
    FieldNamesRequest,
    FieldNamesResponse,
    FingerprintRequest,
    FingerprintResponse,
    GetRequest,
    GetResponse,
    GivenUpCalls,
    GroupOutcomesRequest,
    Hello,
    HostProgress,
    IndexStatisticsRequest,
    IndexStatisticsResponse,
    JoinedGroups,
    NewestGroupsRequest,
    NewestGroupsResponse,
    OpeningStatistics,
    OtherProgress,
    OutcomesRequest,
    OutcomesResponse,
    PositionsRequest,
    PositionsResponse,
    PrepareConfiguration,
    ProcessStatistics,
    SearchRequest,
    SearchResponse,
    StatisticsRequest,
    StatisticsResponse,
    TermsRequest,
    TermsResponse,
    Welcome,
)

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")


def _decoder(message: type[T]) -> Callable[[Any], T] | None:
    """Return the decoder of params or of a result; None for methods without."""
    return None if message is NoneType else msgspec.msgpack.Decoder(message).decode


@dataclass(frozen=True)
class Method(Generic[P, R]):
    """One RPC method: its name and its types.

    Attributes:
        name: on the wire.
        params: struct of the params; NoneType for a method without.
        result: struct of the result; NoneType for a method without.
        can_be_given_up: whether the server ends a call that its caller has given up: a read that
            may take long.
    """

    name: str
    params: type[P]
    result: type[R]
    can_be_given_up: bool = False

    @cached_property
    def decode_params(self) -> Callable[[Any], P] | None:
        """Decodes params; made on first use."""
        return _decoder(self.params)

    @cached_property
    def decode_result(self) -> Callable[[Any], R] | None:
        """Decodes a result; made on first use."""
        return _decoder(self.result)


HELLO: Final = Method("hello", Hello, Welcome)
"""The first frame of every connection."""

GIVE_UP: Final = Method("give_up", GivenUpCalls, NoneType)
"""Which calls the client has given up; every connection takes it itself (`server`)."""

PING: Final = Method("ping", NoneType, NoneType)
OPENING: Final = Method("opening", NoneType, OpeningStatistics)
"""The progress of the start; served before the catalog has arrived."""
CATALOG: Final = Method("catalog", CatalogUpdate, NoneType)
"""The indexes that exist."""
PREPARE: Final = Method("prepare", PrepareConfiguration, NoneType)
"""Build a revision in the background."""

STATISTICS: Final = Method(
    "statistics", StatisticsRequest, StatisticsResponse, can_be_given_up=True
)
TERMS: Final = Method("terms", TermsRequest, TermsResponse, can_be_given_up=True)
"""Words of the index near a text; see `shard.query.spelling.completions_and_near_spellings`."""
SEARCH: Final = Method("search", SearchRequest, SearchResponse, can_be_given_up=True)
FETCH: Final = Method("fetch", FetchRequest, FetchResponse, can_be_given_up=True)
GET: Final = Method("get", GetRequest, GetResponse)
FIELD_NAMES: Final = Method("field_names", FieldNamesRequest, FieldNamesResponse)
FACET_VALUES: Final = Method(
    "facet_values", FacetValuesRequest, FacetValuesResponse, can_be_given_up=True
)

APPLY: Final = Method("apply", ApplyRequest, ApplyResponse)
APPLY_JOINED: Final = Method("apply_joined", JoinedGroups, ApplyResponse)
OUTCOMES: Final = Method("outcomes", OutcomesRequest, OutcomesResponse)
"""Outcomes of a write group whose response was lost."""
NEWEST_GROUPS: Final = Method("newest_groups", NewestGroupsRequest, NewestGroupsResponse)
"""What is on disk of a log that several hosts share, and is away."""
GROUP_OUTCOMES: Final = Method("group_outcomes", GroupOutcomesRequest, ApplyResponse)
"""Between hosts: outcomes of a group of the log, once it is applied there."""
PROGRESS: Final = Method("progress", HostProgress, OtherProgress)
"""Between hosts, polled all the time."""
POSITIONS: Final = Method("positions", PositionsRequest, PositionsResponse)
"""The position up to which each source of changes is stored."""
FINGERPRINT: Final = Method("fingerprint", FingerprintRequest, FingerprintResponse)
"""Reads and hashes all items of a state, in the background: some microseconds each."""
BACKUP: Final = Method("backup", BackupRequest, NoneType)

INDEX_STATISTICS: Final = Method(
    "index_statistics", IndexStatisticsRequest, IndexStatisticsResponse
)
PROCESS_STATISTICS: Final = Method("process_statistics", NoneType, ProcessStatistics)
