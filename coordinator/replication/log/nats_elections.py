"""Asks for an election as soon as the log's leader is dead, instead of 4 to 9 seconds later.

    no leader answers for the log
      └▶ ask all servers (RAFTZ): who leads the stream, who leads JetStream itself (`_meta_`)?
           └▶ a majority answers, and none of it leads, nor stands for election
                └▶ ask again after a moment: still so, and none can win this term's votes
                     └▶ vote request ▶ the others stand within 0.1 to 0.8 s

How long a NATS server waits for its leader is not configurable. But a server that gets a vote
request from a candidate with a shorter log than its own stands for election at once. So we request
votes as the silent leader would if it had lost its log: no server with a single entry can vote for
it, and NATS's own rules elect one with more entries. Raft is safe under any vote requests, in any
order; the worst that this can do is replace a leader that is alive but slow.

This needs a user of the servers' system account (`log_system`). If a later NATS rejects the
request, it logs it as malformed, and the election comes after NATS's own timeout.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from common.process.logs import Log
from common.setting_conversion import SettingError
from coordinator.addresses import without_user
from coordinator.replication.log.jetstream_info import RaftGroup
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.nats_connection import LogConnection
from coordinator.settings import Settings

ANSWER_SECONDS: Final = 0.2
"""Time within which a live server answers, and a leader."""
JITTER_SECONDS: Final = 0.15
"""Hosts do not all ask for votes at once: each first checks whether another was faster."""
AGAIN_SECONDS: Final = 1.2
"""A server that was asked for a vote has stood by then; if there is no leader, we retry."""
CONNECT_SECONDS: Final = 0.02
"""Between two checks whether another server is connected by now."""
META_GROUP: Final = "_meta_"

_ASK: Final = "$SYS.REQ.SERVER.PING.RAFTZ"
_VOTE: Final = "$NRG.V."
_REPLY: Final = "$NRG.R.facetd"
"""The subject to which votes would be sent; it has no subscriber."""

_log = Log("log")


@dataclass(frozen=True, slots=True)
class Voter:
    """A server in a group that elects a leader.

    Attributes:
        id: of the server, in elections.
        state: LEADER, FOLLOWER, CANDIDATE, ...
        leader: id of the server that it follows; empty: none.
        term: newest that it knows.
        vote: id of the server that it has voted for in this term; empty: none.
        last_term: of the newest entry in its log.
        quorum: servers that make a majority.
        peers: ids of the others.
    """

    id: str
    state: str
    leader: str
    term: int
    vote: str
    last_term: int
    quorum: int
    peers: tuple[str, ...]

    @classmethod
    def read(cls, answer: dict[str, Any], group: RaftGroup) -> Voter | None:
        """Read the answer of a server; None if it is not in the group."""
        found = ((answer.get("data") or {}).get(group.account) or {}).get(group.name)
        if found is None:
            return None
        return cls(
            id=found["id"],
            state=found["state"],
            leader=found.get("leader", ""),
            term=found.get("term", 0),
            vote=found.get("voted_for", ""),
            last_term=found.get("pterm", 0),
            quorum=found["quorum_needed"],
            peers=tuple(found.get("peers") or ()),
        )


def is_without_leader(voters: Sequence[Voter]) -> bool:
    """Return whether a majority answers, and none of it leads.

    Args:
        voters: those that answer.
    """
    return (
        bool(voters)
        and len(voters) >= voters[0].quorum
        and all(one.state in ("FOLLOWER", "CANDIDATE") for one in voters)
    )


def can_elect(voters: Sequence[Voter]) -> bool:
    """Return whether one of them may still win the votes of a majority in the newest term.

    Not if they have voted for a leader that is lost, or each for itself, nor if the log has an
    entry of this term: then it had a leader, though a server that was empty or away meanwhile did
    not vote for it. All these take another term. Servers that have been asked for an election have
    not voted yet, and soon stand.

    Args:
        voters: those that answer, at least one.
    """
    term = max(one.term for one in voters)
    if any(one.last_term == term for one in voters):
        return False
    votes = [one.vote if one.term == term else "" for one in voters]
    most = max((votes.count(one.id) for one in voters if one.state == "CANDIDATE"), default=0)
    return most + votes.count("") >= voters[0].quorum


def candidate_of(voters: Sequence[Voter]) -> str:
    """Return the candidate to ask votes for: the lost leader, or another silent member."""
    answering = {one.id for one in voters}
    known = [one.leader for one in voters] + [peer for one in voters for peer in one.peers]
    known = [one for one in known if one]
    return next((one for one in known if one not in answering), known[0] if known else "")


def vote_request(term: int, candidate: str) -> bytes:
    """Return a vote request from a candidate with an empty log.

    Args:
        term: for which.
        candidate: 8 characters.
    """
    return struct.pack("<QQQ8s", term, 0, 0, candidate.encode("ascii"))


class Elections:
    """Asks for elections of this log's leaders.

    Args:
        connection: of a user of the system account.
    """

    def __init__(self, connection: LogConnection) -> None:
        self._connection = connection
        self._suspected = asyncio.Event()
        self._groups: tuple[RaftGroup, ...] = ()
        self._terms: dict[str, tuple[int, float]] = {}
        """The newest term of each group without a leader, and since when we know it."""

    def suspect(self, group: RaftGroup) -> None:
        """Find out soon whether the leader is dead.

        Args:
            group: of the stream.
        """
        self._groups = (group, RaftGroup(META_GROUP, group.traffic, group.traffic))
        self._suspected.set()

    async def run(self) -> None:
        """Check whenever a leader is suspected to be dead, for as long as this host runs."""
        self._connection.start()
        try:
            while True:
                await self._suspected.wait()
                self._suspected.clear()
                while not self._connection.is_connected:  # noqa: ASYNC110
                    await asyncio.sleep(CONNECT_SECONDS)
                await asyncio.gather(*map(self._look, self._groups))
        finally:
            await self._connection.close()

    async def _look(self, group: RaftGroup) -> None:
        """Ask for an election if a group has lost its leader."""
        try:
            voters = await self._voters(group, enough=0)
            if not self._is_due(group, voters):
                return
            await asyncio.sleep(random.random() * JITTER_SECONDS)
            again = await self._voters(group, enough=len(voters))
            if {(one.id, one.term, one.state) for one in again} != {
                (one.id, one.term, one.state) for one in voters
            }:
                return  # another host was faster, or an election has begun
            term, candidate = max(one.term for one in again) + 1, candidate_of(again)
            self._terms[group.name] = (term, time.monotonic())
            await self._connection.tell(_VOTE + group.name, vote_request(term, candidate), _REPLY)
            _log.warning("asked for an election", group=group.name, leader=candidate, term=term)
        except (LogAway, ValueError, KeyError, TypeError) as error:
            _log.warning("no election asked for", group=group.name, reason=str(error))

    def _is_due(self, group: RaftGroup, voters: Sequence[Voter]) -> bool:
        """Return whether an election must be requested for a group."""
        if not is_without_leader(voters):
            self._terms.pop(group.name, None)
            return False
        term, now = max(one.term for one in voters), time.monotonic()
        known, since = self._terms.get(group.name, (0, now))
        if known != term:
            self._terms[group.name] = (term, since := now)
        return not can_elect(voters) or now - since >= AGAIN_SECONDS

    async def _voters(self, group: RaftGroup, enough: int) -> list[Voter]:
        """Ask all servers for their state in a group."""
        question = orjson.dumps({"account": group.account, "group": group.name})
        answers = await self._connection.ask_all(_ASK, ANSWER_SECONDS, enough, question)
        found = [Voter.read(orjson.loads(answer), group) for answer in answers]
        return [one for one in found if one is not None]


def elections_of(settings: Settings) -> Elections | None:
    """Create `Elections`; None if no user of the system account is configured.

    Raises:
        SettingError: `log_system` is neither USER:PASSWORD nor a file.
    """
    if not settings.log_system:
        return None
    user, colon, password = settings.log_system.partition(":")
    addresses = ",".join(map(without_user, settings.log_url.split(",")))
    if colon and not Path(settings.log_system).exists():
        return Elections(LogConnection(addresses, user=user, password=password))
    if not Path(settings.log_system).is_file():
        raise SettingError(
            "log_system is USER:PASSWORD or a file of NATS credentials, of a user of the system "
            f"account, not {settings.log_system}"
        )
    return Elections(LogConnection(addresses, settings.log_system))
