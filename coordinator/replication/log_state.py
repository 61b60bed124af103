"""Status of a host and its log, for operators: `/_health`, metrics, `facetd cluster status`."""

from __future__ import annotations

from typing import NamedTuple


class LogState(NamedTuple):
    """Status of this host as a replica, for operators."""

    cluster: str
    host: str
    seq: int
    """Applied here, and seen by searches."""
    last_seq: int | None
    """Number of the log's last entry; None while the log is away."""
    lag_ms: int
    """Upper bound of the time for which this host has lacked an entry."""
    is_log_up: bool
    num_current: int
    """Servers that have the whole log."""
    num_replicas: int
    leader: str
    trouble: str
    """What keeps this host from applying; empty if nothing does."""
    name: str
    """Name of this host, for people."""
    compared_seq: int
    """Entry at which this host and others last compared their contents; 0: never."""
    compared_age_s: int
    """Time since then; -1: never."""
    num_equal: int
    """Hosts with the same data then, this one included."""
    difference: str
    """Which hosts differed then, and in what; empty if none did."""
    digest: str
    """Digest of this host's data at that entry."""
