"""Which hosts share the log, and what is the state of each? Every host polls all others.

    every three seconds   state?  ──▶  all hosts     ◀── each its own state, within a second

There is no list of members: a host that answers is one. A host that no longer answers is *away*
until it answers again, another copy of the same name takes its place, an operator removes it
(`facetd cluster remove`), or a day has passed. A host that starts learns from the first answers
which hosts are away, so restarts of one after the other forget none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from common.decode_errors import UNDECODABLE
from common.process.logs import Log
from coordinator.catalog.catalog import program_version
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.peers.host_and_log_status import HostStatus
from coordinator.snapshots import snapshots_on_disk

if TYPE_CHECKING:
    from nats.aio.msg import Msg

ASK_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 3 * ASK_SECONDS
FORGET_SECONDS: Final = 86_400.0

_log = Log("replica")


class HostState(Struct, frozen=True):
    """State of a host, as reported by itself."""

    host: str
    """Names its copy of the data."""
    name: str
    """Name of the host, for people."""
    version: str
    shards: int
    seq: int
    """Entry up to which it has applied the log."""
    lag_ms: int
    is_serving: bool
    trouble: str
    compared_seq: int
    compared_age_s: int
    num_equal: int
    difference: str
    digest: str
    snapshot_at: str
    """When its newest snapshot was made (ISO 8601); empty: it has none."""


class _SilentHost(Struct, frozen=True):
    """A host that is away."""

    state: HostState
    """As it answered last."""
    seconds: float
    """For how long it has been silent."""


class _HostStateAndAway(HostState, frozen=True):
    """What a host answers: its own state, and who is away."""

    away: tuple[_SilentHost, ...] = ()


class _Heard(NamedTuple):
    """What another host said last, and when (monotonic, s) it answered first and last."""

    state: HostState
    first_at: float
    last_at: float


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_HostStateAndAway).decode


class Peers:
    """All hosts that share the log and that this one has heard from.

    Args:
        host: this one.
        state_of_log: returns the state of this host and of the log.
    """

    def __init__(self, host: HostContext, state_of_log: Callable[[], HostStatus]) -> None:
        self._host = host
        self._stream = host.stream
        self._settings = host.settings
        self._state_of_log = state_of_log
        self._known: dict[str, _Heard] = {}
        self._has_learnt = False
        """Whether others have told who is away; later they might tell of one that was removed."""
        self._newest_snapshot = ""
        self._folders: set[tuple[str, int]] = set()
        """In the folder of snapshots: their names, and when each was changed."""

    async def run(self) -> None:
        """Answer the others and poll them for as long as this host runs."""
        while not self._stream.is_connected or not self._host.id:  # noqa: ASYNC110
            await asyncio.sleep(ANSWER_SECONDS / 2)
        # The subscriptions outlive a connection: the client makes them again.
        client = self._stream.client()
        await client.subscribe(f"{self._stream.name}.peers.state", cb=self._answer)
        await client.subscribe(f"{self._stream.name}.peers.forget", cb=self._take_forgetting)
        while True:
            await asyncio.to_thread(self._look_for_snapshots)
            try:
                await self.ask()
            except LogAway as error:
                _log.debug("other hosts cannot be asked", reason=str(error))
            await asyncio.sleep(ASK_SECONDS)

    def _look_for_snapshots(self) -> None:
        """Note when the newest snapshot was made; read them only if one has come, gone or changed.

        Each reading logs what is no snapshot. A folder that cannot be read has nothing new.
        """
        folder = self._settings.snapshot_folder
        try:
            folders = set()
            if folder.is_dir():
                folders = {(one.name, one.stat().st_mtime_ns) for one in folder.iterdir()}
            if folders != self._folders:
                found = snapshots_on_disk.list_snapshots(folder)
                self._newest_snapshot = max((one.created_at for one in found), default="")
                self._folders = folders
        except OSError as error:
            _log.debug("snapshots cannot be read", reason=error.strerror)

    @property
    def own(self) -> HostState:
        """The state of this host."""
        state = self._state_of_log()
        return HostState(
            host=state.host,
            name=state.name,
            version=program_version(),
            shards=len(self._host.shards) or self._settings.shards,
            seq=state.seq,
            lag_ms=state.lag_ms,
            is_serving=self._host.serving.is_serving,
            trouble=state.trouble,
            compared_seq=state.compared_seq,
            compared_age_s=state.compared_age_s,
            num_equal=state.num_equal,
            difference=state.difference,
            digest=state.digest,
            snapshot_at=self._newest_snapshot,
        )

    async def _answer(self, message: Msg) -> None:
        away = tuple(_SilentHost(*one) for one in self.hosts if one[1] > AWAY_SECONDS)
        await message.respond(
            _encode(_HostStateAndAway(**msgspec.structs.asdict(self.own), away=away))
        )

    async def ask(self, *, only_known: bool = False) -> None:
        """Ask all hosts, and wait for their answers.

        Args:
            only_known: wait no longer once all that have ever answered have.

        Raises:
            LogAway: the log is.
        """
        subject = f"{self._stream.name}.peers.state"
        enough = len(self._known) if only_known else 0
        away: list[_SilentHost] = []
        has_heard = False
        for content in await self._stream.ask_all(subject, ANSWER_SECONDS, enough):
            try:
                answer = _decode(content)
            except UNDECODABLE as error:
                _log.warning("the state of another host cannot be read", reason=str(error))
                continue
            self._note(msgspec.convert(answer, HostState, from_attributes=True))
            if answer.host != self._host.id:
                has_heard = True
                away += answer.away
        if has_heard and not self._has_learnt:
            self._has_learnt = True
            self._learn(away)

    def _learn(self, away: list[_SilentHost]) -> None:
        """Know hosts that others have heard from, and that are away."""
        now = time.monotonic()
        for one in sorted(away, key=lambda one: one.seconds):
            if one.state.host not in (*self._known, self._host.id):
                at = now - one.seconds
                self._known[one.state.host] = _Heard(one.state, at, at)

    def _note(self, state: HostState) -> None:
        now = time.monotonic()
        former = self._known.get(state.host)
        first_at = now if former is None else former.first_at
        for host, other in list(self._known.items()):
            if host == state.host:
                continue
            is_silent = now - other.last_at > 2 * ANSWER_SECONDS
            has_same_name = other.state.name == state.name
            # One that answered beside the other does not take its place.
            is_replaced = has_same_name and is_silent and other.last_at < first_at
            if now - other.last_at > FORGET_SECONDS or is_replaced:
                del self._known[host]
            elif former is None and has_same_name:
                _log.warning(
                    "two hosts have the same name; give each its own (log_host)",
                    name=state.name,
                    hosts=f"{host}, {state.host}",
                )
        self._known[state.host] = _Heard(state, first_at, now)

    @property
    def hosts(self) -> list[tuple[HostState, float]]:
        """All hosts, this one included, by name; and for how many seconds each was silent."""
        now = time.monotonic()
        own = self.own
        others = [
            (heard.state, now - heard.last_at)
            for host, heard in self._known.items()
            if host != own.host
        ]
        return sorted([(own, 0.0), *others], key=lambda one: (one[0].name, one[0].host))

    @property
    def num_away(self) -> int:
        """Number of hosts that have answered before, and do not any more."""
        return sum(silent > AWAY_SECONDS for _, silent in self.hosts)

    async def forget(self, host: str) -> None:
        """Have all hosts forget one.

        Raises:
            LogAway: the log is.
        """
        await self._stream.tell(f"{self._stream.name}.peers.forget", host.encode())
        self._known.pop(host, None)

    async def _take_forgetting(self, message: Msg) -> None:
        self._known.pop(message.data.decode("ascii", "replace"), None)

    def shown(self) -> list[dict[str, Any]]:
        """Return all hosts for `GET /_cluster`."""
        own = self._host.id
        return [
            {
                **msgspec.structs.asdict(state),
                "is_here": state.host == own,
                "is_away": silent > AWAY_SECONDS,
                "silent_s": int(silent),
            }
            for state, silent in self.hosts
        ]
