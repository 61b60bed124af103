"""A change that the log was never sent is known not to be carried out; any other may be."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from common.errors import ServiceError
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.host.pending_changes import PendingChanges
from coordinator.replication.log.log_entries import CONTENT_BYTES_MAX, Kind
from coordinator.replication.log.log_errors import LogAway, NotConnected, NotPublished
from coordinator.replication.log.log_stream import DUPLICATES_SECONDS
from coordinator.replication.publishing import entry_publishing
from coordinator.replication.publishing.entry_publishing import Publisher
from coordinator.replication.publishing.write_group_publishing import GroupPublisher
from coordinator.write.write_batch import Items, WriteBatch


class _Log:
    """The log's stream: each message meets the next of these errors."""

    def __init__(self, *errors: LogAway | None) -> None:
        self.elected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._errors = list(errors)
        self.ids: list[str] = []
        self.now = 1_000.0
        """By the leader's clock."""

    async def info(self, _seconds: float) -> Any:
        return SimpleNamespace(answered_at=self.now)

    async def publish(self, id: str, _message: bytes) -> int:
        self.ids.append(id)
        error = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        if error is not None:
            raise error
        return len(self.ids)


class _ForgetfulLog(_Log):
    """A log that stores entries, remembers their ids for ten minutes, and never confirms at once.

    Attributes:
        stored: id of each entry, and when it was stored.
        suspended_seconds: how long this machine is suspended after it has sent an entry.
    """

    def __init__(self, suspended_seconds: float, *, is_elected: bool = False) -> None:
        super().__init__(None)
        self.stored: list[tuple[str, float]] = []
        self.suspended_seconds = suspended_seconds
        self._is_elected = is_elected

    async def publish(self, id: str, message: bytes) -> int:
        known = [at for one, at in self.stored if one == id]
        if not any(self.now - at <= DUPLICATES_SECONDS for at in known):
            self.stored.append((id, self.now))
        if len(self.stored) > 1 or known:
            return len(self.stored)
        self.now += self.suspended_seconds
        if not self._is_elected:
            raise LogAway("the confirmation is lost")
        asyncio.get_running_loop().call_later(0.05, self.elected.set_result, None)
        await asyncio.Event().wait()  # the former leader answers no more
        raise AssertionError


def publisher_to(log: _Log) -> Publisher:
    class Watch:
        heard_at = 0.0
        info = SimpleNamespace(answered_at=log.now)

        @property
        def elected(self) -> asyncio.Future[None]:
            return log.elected

        def doubt(self) -> None:
            pass

    host = SimpleNamespace(cluster=None, stream=log)
    return Publisher(cast(HostContext, host), cast(LogWatch, Watch()), cast(Applier, None))


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_publishing, "GIVE_UP_SECONDS", 0.01)
    monkeypatch.setattr(entry_publishing, "PAUSE_SECONDS", 0.01)


async def failed(log: _Log, packed: bytes = b"entry") -> LogAway:
    publisher = publisher_to(log)
    applied: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    with pytest.raises(LogAway) as caught:
        await publisher.append(Kind.WRITE, "id", packed, applied)
    return caught.value


async def test_what_no_server_was_sent_is_not_carried_out() -> None:
    assert type(await failed(_Log(NotConnected("away")))) is NotPublished


async def test_what_any_server_was_sent_may_be_carried_out() -> None:
    assert type(await failed(_Log(LogAway("silent")))) is LogAway
    error = await failed(_Log(LogAway("silent"), NotConnected("away")))
    assert not isinstance(error, NotPublished)


@pytest.mark.parametrize("is_elected", [False, True])
async def test_an_entry_that_the_log_has_forgotten_is_not_sent_again(
    is_elected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine was suspended meanwhile, and its own clock with it; or the log's was set."""
    monkeypatch.setattr(entry_publishing, "DOUBT_SECONDS", 0.01)
    monkeypatch.setattr(entry_publishing, "GIVE_UP_SECONDS", 60.0)
    log = _ForgetfulLog(DUPLICATES_SECONDS + 1, is_elected=is_elected)
    error = await failed(log)
    assert not isinstance(error, NotPublished)
    assert len(log.stored) == 1


@pytest.mark.parametrize("is_elected", [False, True])
async def test_an_entry_that_the_log_remembers_is_sent_again(
    is_elected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_publishing, "DOUBT_SECONDS", 0.01)
    monkeypatch.setattr(entry_publishing, "GIVE_UP_SECONDS", 60.0)
    log = _ForgetfulLog(3.0, is_elected=is_elected)
    applied: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    assert await publisher_to(log).append(Kind.WRITE, "id", b"entry", applied) == 1
    assert len(log.stored) == 1


async def test_pieces_without_their_entry_are_not_carried_out() -> None:
    log = _Log(LogAway("silent"))
    assert type(await failed(log, bytes(CONTENT_BYTES_MAX + 1))) is NotPublished
    assert set(log.ids) == {"id.0"}


async def test_a_host_that_stops_publishes_no_entry_without_the_numbers_of_its_pieces() -> None:
    """All hosts would look for such pieces forever."""
    log = _Log(None)
    applied: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    publish, confirming = log.publish, asyncio.Event()

    async def stop_meanwhile(id: str, message: bytes) -> int:
        number = await publish(id, message)
        if id == "id.1":
            applied.cancel()  # as `PendingChanges.fail` does
            await confirming.wait()
        return number

    log.publish = stop_meanwhile  # type: ignore[assignment, method-assign]
    number = await publisher_to(log).append(
        Kind.WRITE, "id", bytes(2 * CONTENT_BYTES_MAX + 1), applied
    )
    confirming.set()
    await asyncio.sleep(0.01)

    assert number == 0
    assert log.ids == ["id.0", "id.1"]


@pytest.mark.parametrize("is_sent", [False, True])
async def test_items_without_ids_may_be_sent_again_if_nothing_was_written(is_sent: bool) -> None:
    log = _Log(LogAway("silent") if is_sent else NotConnected("away"))
    groups = GroupPublisher(publisher_to(log), PendingChanges())
    payload = np.frombuffer(bytearray(b'{"a":1}{"a":2}'), np.uint8)
    starts, ends = np.array([0, 7]), np.array([7, 14])
    items = Items(payload, starts, ends, np.zeros(2, np.uint64), np.zeros(2, np.bool_))
    batch = WriteBatch(2, 14, items=items)
    applied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    await groups.publish(1, [batch], applied)
    with pytest.raises(ServiceError) as caught:
        await batch.future
    assert ("nothing was written" in caught.value.message) is not is_sent
