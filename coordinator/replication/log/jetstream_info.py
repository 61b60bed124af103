"""The state of the log's stream and of its servers, as JetStream reports them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

ORIGIN_KEY: Final = "facetd-origin"
CLUSTER_KEY: Final = "facetd-cluster"
FORMAT_KEY: Final = "facetd-format"
LIMITS_KEY: Final = "facetd-limits"
SHARDS_KEY: Final = "facetd-shards"
"""Number of shards of all hosts together, where each host holds some."""
HEARD_SECONDS: Final = 2.5
"""A follower answers its leader at least once a second: after this silence it may lack entries."""


class RaftGroup(NamedTuple):
    """A group of servers that elects a leader."""

    name: str
    account: str
    """The account to which it belongs."""
    traffic: str
    """The account in which its servers talk to each other."""


class ServerState(NamedTuple):
    """A server that stores the log."""

    name: str
    is_leader: bool
    is_current: bool
    """Whether it has the whole log, as it has recently told this leader."""
    num_missing: int
    """Entries that it still lacks."""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """State of the stream, from its leader.

    Attributes:
        first_seq: the oldest entry that is kept.
        last_seq: the newest entry.
        num_replicas: servers that store it.
        num_current: of these the ones that have all of it, as they have recently told this leader.
        has_majority: whether the leader knows of enough servers to store an entry. A new leader has
            not heard of the others yet, and is not doubted for it.
        leader: name of the server that leads; empty for a server without a cluster.
        servers: that store it; empty for a server without a cluster.
        num_bytes: on each of them.
        answered_at: when the leader said so, by its clock, which also dates the entries (Unix,
            seconds); None if it does not say.
        group: name of the group that elects the leader; empty if the system account knows none.
        traffic: the account in which the group's servers talk to each other.
        metadata: that facetd wrote when it created the stream.
        config: as JetStream has it.
    """

    first_seq: int
    last_seq: int
    num_replicas: int
    num_current: int
    has_majority: bool
    leader: str
    servers: tuple[ServerState, ...]
    num_bytes: int
    answered_at: float | None
    group: str
    traffic: str
    metadata: dict[str, str]
    config: dict[str, Any]

    @property
    def cluster(self) -> str:
        """Names the log: a stream that is created again under the same name is another log."""
        return self.metadata.get(CLUSTER_KEY, "")

    @property
    def origin(self) -> int:
        """Number that the first entry was given; 1 unless the log began with existing data."""
        return int(self.metadata.get(ORIGIN_KEY, "1"))

    @property
    def is_complete(self) -> bool:
        """Whether it has every change: it began without data, and none of its entries is gone."""
        return self.origin == 1 and self.first_seq <= 1

    @classmethod
    def read(cls, answer: dict[str, Any]) -> StreamInfo:
        """Read a response of JetStream."""
        state, config = answer["state"], answer["config"]
        cluster = answer.get("cluster") or {}
        followers = cluster.get("replicas") or []
        leader = cluster.get("leader", "")
        answered_at = _moment(answer.get("ts"))
        seconds = min(HEARD_SECONDS, _led_seconds(answered_at, cluster))
        servers = tuple(_follower(one, seconds) for one in followers)
        num_there = 1 + sum(map(_is_there, followers))
        return cls(
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
            num_replicas=config["num_replicas"],
            num_current=1 + sum(one.is_current for one in servers),
            has_majority=2 * num_there > config["num_replicas"],
            leader=leader,
            servers=(*((ServerState(leader, True, True, 0),) if leader else ()), *servers),
            num_bytes=state.get("bytes", 0),
            answered_at=answered_at,
            group=cluster.get("raft_group", "") if cluster.get("system_account") else "",
            traffic=cluster.get("traffic_account", ""),
            metadata=config.get("metadata") or {},
            config=config,
        )


def _follower(follower: dict[str, Any], seconds: float) -> ServerState:
    """Return the state of a follower.

    The leader calls a follower current by the last entry that it knows it to have. After the
    follower's silence, a restart with an empty disk or an election, this may be long ago, or what
    another leader was told.

    Args:
        follower: as the leader describes it.
        seconds: within which the leader must have heard it.
    """
    heard = follower.get("active", 0) / 1e9  # 0: never
    is_current = _is_there(follower) and 0 < heard <= seconds
    return ServerState(follower["name"], False, is_current, int(follower.get("lag", 0)))


def _is_there(follower: dict[str, Any]) -> bool:
    """Return whether the leader takes a follower for current and connected."""
    return bool(follower["current"]) and not follower.get("offline")


def _moment(text: Any) -> float | None:
    """Return a time that the log says, in Unix seconds; None if it says none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return None


def _led_seconds(answered_at: float | None, cluster: dict[str, Any]) -> float:
    """Return how long the leader has led, by its own clock; infinite if it does not say."""
    since = _moment(cluster.get("leader_since"))
    return math.inf if answered_at is None or since is None else answered_at - since
