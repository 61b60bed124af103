"""Status of a host and its log, for operators: `/_health`, metrics, `facetd cluster status`."""

from __future__ import annotations

from typing import Final, NamedTuple

from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.peers.data_comparison import DigestComparer

FOR_ADMINS: Final = "GET /_cluster says more to a key with admin"
"""Stands for a text that not everyone may read."""


class HostStatus(NamedTuple):
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

    @property
    def for_everyone(self) -> HostStatus:
        """The status without texts that may name indexes, for those who need no key to read it."""
        return self._replace(
            trouble=self.trouble and FOR_ADMINS, difference=self.difference and FOR_ADMINS
        )


def host_status(
    host: HostContext, watch: LogWatch, applier: Applier, comparer: DigestComparer
) -> HostStatus:
    """Return the status of this host.

    Args:
        host: this one.
        watch: knows the state of the log.
        applier: knows what keeps this host from applying.
        comparer: knows whether the hosts are equal.
    """
    info = watch.info
    serving = host.serving
    blocked = "" if applier.blocked is None else applier.blocked.message
    compared = comparer.state
    return HostStatus(
        cluster=host.progress.cluster,
        host=host.id,
        seq=max(serving.shown_seq, 0),
        last_seq=info.last_seq if info is not None and watch.is_up else None,
        lag_ms=watch.lag_ms,
        is_log_up=watch.is_up,
        num_current=watch.num_current,
        num_replicas=0 if info is None else info.num_replicas,
        leader="" if info is None else info.leader,
        trouble=serving.why_stopped or blocked,
        name=host.name,
        compared_seq=compared.seq,
        compared_age_s=compared.age_s,
        num_equal=compared.num_equal,
        difference=compared.difference,
        digest=compared.digest,
    )
