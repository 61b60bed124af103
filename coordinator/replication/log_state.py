"""How a host and its log are, for operators: `/_health`, metrics, `facetd cluster status`."""

from __future__ import annotations

from typing import NamedTuple


class LogState(NamedTuple):
    """What operators want to know about this host as a replica."""

    cluster: str
    host: str
    seq: int
    """Applied here, and seen by searches."""
    last_seq: int | None
    """Of the log; None while it is away."""
    lag_ms: int
    """For how long at most this host has not had everything."""
    is_log_up: bool
    num_current: int
    """Servers that have the whole log."""
    num_replicas: int
    leader: str
    trouble: str
    """What keeps this host from applying; empty if nothing does."""
    name: str
    """Of this host, for people."""
    compared_seq: int
    """Entry at which the contents of this host and of others were compared last; 0: never."""
    compared_age_s: int
    """Since then; -1: never."""
    num_equal: int
    """Hosts that had the same then, this one included."""
    difference: str
    """Who had something else then, and in what; empty if nobody had."""
    digest: str
    """Identifies what this host had then."""
