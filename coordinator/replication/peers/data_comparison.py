"""Verifies that all hosts hold the same data, by digests at the same entry of the log.

    log   … write  write  MARK  write  write  REPORT(a)  write  REPORT(b)  REPORT(c) …
    a                     ├─ holds this state, hashes every item ─┘
    b                     ├──────────── likewise ──────────────────────────┘
    c                     └──────────── likewise ────────────────────────────────────┘

A mark makes every host hold its state at that entry. Hashing runs in the background, during
searches and writes, and reads every item, so it also finds damage on disk. Reports are entries too:
all hosts see the same ones. If two of three hosts agree, the third is wrong and stops. Without a
majority no host can tell which one is wrong; all of them report the difference.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

import msgspec
import xxhash

from common.errors import ServiceError
from common.process.logs import Log
from common.protocol.messages import FingerprintRequest, FingerprintResponse
from common.protocol.methods import FINGERPRINT
from coordinator.catalog.catalog_state import CatalogState
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.shard_client import ShardClient
from coordinator.replication.log.log_entries import HostReport, IndexFingerprint
from coordinator.replication.log.log_errors import LogAway

MARKS_KEPT: Final = 4
"""Marks whose reports are remembered; a slow host reports late."""
DIFFERENCES_MAX: Final = 10
"""Differences from one host that are named: they are part of messages, also to clients."""
HASHING_MS: Final = 4 * 3_600_000
"""Time limit for a shard to hash an index."""

_log = Log("replica")
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Verdict(NamedTuple):
    """The verdict of one mark's reports on a host.

    Attributes:
        num_equal: hosts with the same data as this one, itself included.
        difference: which hosts differ in what; empty if none does.
        is_outlier: whether two others agree, and outnumber those that agree with this host.
        num_against: most hosts that agree with each other, and not with this one.
    """

    num_equal: int
    difference: str
    is_outlier: bool
    num_against: int = 0


class Comparison(NamedTuple):
    """The newest mark at which this host was compared with others."""

    seq: int
    """Number of the mark; 0: there was none yet."""
    age_s: int
    """Time since then; -1: there was none yet."""
    num_equal: int
    """Hosts with the same data, this one included."""
    difference: str
    """Which hosts differ in what; empty if none does."""
    digest: str
    """Digest of this host's data at that mark."""


def judge(own: HostReport, others: Mapping[str, HostReport], names: Mapping[int, str]) -> Verdict:
    """Compare the reports of one mark.

    Args:
        own: of this host.
        others: of the other hosts that have reported.
        names: of indexes, by number.
    """
    if own.parts:
        return _judge_parts(own, others, names)
    contents = _contents(own)
    theirs = {host: _contents(one) for host, one in others.items()}
    found = Counter(theirs.values())
    num_equal = 1 + found.pop(contents, 0)
    if not found:
        return Verdict(num_equal, "", is_outlier=False)
    most = max(found.values())
    is_outlier = most > num_equal  # so two at least
    differing = [one for host, one in others.items() if theirs[host] != contents]
    texts = [f"{one.name}: {_difference(own, one, names)}" for one in differing]
    return Verdict(num_equal, "; ".join(sorted(texts)), is_outlier, most)


def _judge_parts(
    own: HostReport, others: Mapping[str, HostReport], names: Mapping[int, str]
) -> Verdict:
    """Compare the reports of hosts that hold some shards each, by shard.

    One shard in which the others outnumber this host is enough to be wrong.
    """
    held = {host: _held(one) for host, one in others.items()}
    differences: dict[str, list[str]] = {}
    worst = (False, 0)
    for key, value in _held(own).items():
        found = Counter(theirs[key] for theirs in held.values() if key in theirs)
        if found.keys() <= {value}:
            continue
        against = max(count for other, count in found.items() if other != value)
        worst = max(worst, (against > 1 + found[value], against))
        for host, theirs in held.items():
            if theirs.get(key, value) != value:
                differences.setdefault(others[host].name, []).append(_named(key, names))
    texts = [f"{name}: {_listed(parts)}" for name, parts in differences.items()]
    is_outlier, num_against = worst
    num_equal = 1 + len(others) - len(differences)
    return Verdict(num_equal, "; ".join(sorted(texts)), is_outlier, num_against)


_CATALOG_KEY: Final = (-1, -1)


def _held(report: HostReport) -> dict[tuple[int, int], bytes]:
    """Return what a host holds, by index and shard."""
    held = {
        (number, shard): _encode(fingerprint)
        for number, shards in report.parts.items()
        for shard, fingerprint in shards.items()
    }
    return {**held, _CATALOG_KEY: _encode(report.catalog)}


def _named(key: tuple[int, int], names: Mapping[int, str]) -> str:
    if key == _CATALOG_KEY:
        return "configurations, aliases or keys differ"
    number, shard = key
    return f"items of index {names.get(number, str(number))!r} on shard {shard} differ"


def _contents(report: HostReport) -> bytes:
    parts = [(number, sorted(shards.items())) for number, shards in sorted(report.parts.items())]
    if parts:
        return _encode((report.catalog, parts))
    return _encode((report.catalog, sorted(report.indexes.items())))


def _difference(own: HostReport, other: HostReport, names: Mapping[int, str]) -> str:
    """Describe how another host differs."""
    parts = []
    for number in sorted(own.indexes.keys() | other.indexes.keys()):
        ours, theirs = own.indexes.get(number), other.indexes.get(number)
        if ours == theirs:
            continue
        name = names.get(number, str(number))
        if ours is None or theirs is None:
            parts.append(f"index {name!r} is missing {'here' if ours is None else 'there'}")
        elif ours.num_damaged or theirs.num_damaged:
            parts.append(
                f"index {name!r} has {theirs.num_damaged} damaged items there, "
                f"{ours.num_damaged} here"
            )
        elif ours.num_items != theirs.num_items:
            parts.append(
                f"index {name!r} has {theirs.num_items} items there, {ours.num_items} here"
            )
        else:
            parts.append(f"items of index {name!r} differ")
    if own.catalog != other.catalog:
        parts.append("configurations, aliases or keys differ")
    return _listed(parts)


def _listed(differences: Sequence[str]) -> str:
    """Name the first differences, and say how many more there are."""
    num_more = len(differences) - DIFFERENCES_MAX
    more = [f"{num_more:,} more"] if num_more > 0 else []
    return ", ".join([*differences[:DIFFERENCES_MAX], *more])


def digest_of_catalog(state: CatalogState) -> int:
    """Return a number that follows from the catalog."""
    return xxhash.xxh3_64_intdigest(_encode(state))


def _summed(shards: Iterable[IndexFingerprint]) -> IndexFingerprint:
    """Return the digest of the items of all shards."""
    found = list(shards)
    return IndexFingerprint(
        sum(one.num_items for one in found),
        sum(one.num_damaged for one in found),
        sum(one.fingerprint for one in found) % 2**64,
    )


class DigestComparer:
    """Hashes this host's data at marks, and compares the digests with the reports of other hosts.

    Args:
        cluster: the shards of this host.
        publish: puts a report into the log.
        stop: makes this host stop for good, for a reason.
    """

    def __init__(
        self,
        cluster: Cluster,
        publish: Callable[[HostReport], Awaitable[None]],
        stop: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._publish = publish
        self._stop = stop
        self._reports: dict[int, dict[str, HostReport]] = {}
        self._own: dict[int, tuple[HostReport, dict[int, str]]] = {}
        self._newest = Comparison(0, -1, 0, "", "")
        self._compared_at = 0.0
        self._hashing: asyncio.Task[None] | None = None

    @property
    def state(self) -> Comparison:
        """The newest mark at which another host had reported."""
        if not self._newest.seq:
            return self._newest
        return self._newest._replace(age_s=int(time.monotonic() - self._compared_at))

    def mark(self, seq: int, host: str, name: str, catalog: CatalogState) -> None:
        """Hold the state after an entry and begin to hash it, unless a hash is still running."""
        if self._hashing is not None and not self._hashing.done():
            _log.warning("not compared: the mark before is still being hashed", seq=seq)
            return
        held = ExitStack()
        here = dict(self._cluster.here)
        try:
            self._cluster.check_serving()  # what is applied again may have more than the mark
            horizons = {
                index.number: held.enter_context(self._cluster.reading_here(index.number))
                for index in catalog.indexes
            }
        except ServiceError as error:  # this host does not serve yet
            held.close()
            _log.info("not compared", seq=seq, reason=error.message)
            return
        report = HostReport(host, name, seq, digest_of_catalog(catalog), {})
        names = {index.number: index.name for index in catalog.indexes}
        hashing = self._hash(report, names, horizons, here, held)
        self._hashing = asyncio.create_task(hashing)

    async def close(self) -> None:
        """Cancel the running hash."""
        if self._hashing is not None:
            self._hashing.cancel()
            await asyncio.gather(self._hashing, return_exceptions=True)

    async def _hash(
        self,
        report: HostReport,
        names: dict[int, str],
        horizons: dict[int, int],
        here: dict[int, ShardClient],
        held: ExitStack,
    ) -> None:
        """Hash all indexes one after the other, on the shards that were here, and report."""
        try:
            with held:
                for number, horizon in horizons.items():
                    shards = await self._hash_index(number, horizon, here)
                    if self._cluster.placed is None:
                        report.indexes[number] = _summed(shards.values())
                    else:
                        report.parts[number] = shards
            self._own[report.mark] = (report, names)
            await self._publish(report)
        except (ServiceError, LogAway) as error:
            # A shard that exits forgets the state; an index may be gone. The next mark will do.
            _log.warning("not compared", seq=report.mark, reason=str(error))
        except Exception as error:
            _log.error("comparing failed", cause=error)

    async def _hash_index(
        self, number: int, horizon: int, here: dict[int, ShardClient]
    ) -> dict[int, IndexFingerprint]:
        """Return the digest of an index's items, by shard of this host."""
        request = FingerprintRequest(number, horizon)
        calls: list[asyncio.Future[FingerprintResponse]] = []
        try:
            for shard in here.values():
                # Not a comprehension: after a failure, the calls already made must be awaited.
                calls.append(shard.call(FINGERPRINT, request, HASHING_MS))  # noqa: PERF401
            answers = [await call for call in calls]
        finally:
            await asyncio.gather(*calls, return_exceptions=True)
        return {
            shard: IndexFingerprint(answer.num_items, answer.num_damaged, answer.fingerprint)
            for shard, answer in zip(here, answers, strict=True)
        }

    def take(self, report: HostReport) -> None:
        """Take a report from the log; it may be our own."""
        self._reports.setdefault(report.mark, {})[report.host] = report
        for kept in (self._reports, self._own):
            for mark in sorted(kept)[:-MARKS_KEPT]:
                del kept[mark]
        if report.mark not in self._own or report.mark not in self._reports:
            return
        own, names = self._own[report.mark]
        reports = self._reports[report.mark]
        others = {host: one for host, one in reports.items() if host != own.host}
        if own.host not in reports or not others:
            return
        verdict = judge(own, others, names)
        self._compared_at = time.monotonic()
        if report.mark >= self._newest.seq:
            digest = xxhash.xxh3_64_hexdigest(_contents(own))
            self._newest = Comparison(report.mark, 0, verdict.num_equal, verdict.difference, digest)
        if not verdict.difference:
            _log.info("hosts are equal", seq=report.mark, hosts=verdict.num_equal)
            return
        _log.error("hosts differ", seq=report.mark, difference=verdict.difference)
        if verdict.is_outlier:
            self._stop(
                f"at entry {report.mark} it had other contents than {verdict.num_against} hosts "
                "that agree "
                f"({verdict.difference})"
            )
