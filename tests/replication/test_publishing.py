"""A change that the log was never sent is known not to be carried out; any other may be."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import numpy as np
import pytest

from common.errors import ServiceError
from coordinator.replication.applying.applying import Applier
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.host.own_changes import OwnChanges
from coordinator.replication.host.this_host import ThisHost
from coordinator.replication.log.entries import CONTENT_BYTES_MAX, Kind
from coordinator.replication.log.log_errors import LogAway, NotConnected, NotPublished
from coordinator.replication.publishing import publishing
from coordinator.replication.publishing.group_publishing import GroupPublisher
from coordinator.replication.publishing.publishing import Publisher
from coordinator.write.write_batch import Items, WriteBatch


class _Log:
    """The log, its watch, and this host: each message meets the next of these errors."""

    cluster = None
    heard_at = 0.0

    def __init__(self, *errors: LogAway | None) -> None:
        self.stream = self
        self.elected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._errors = list(errors)
        self.ids: list[str] = []

    def doubt(self) -> None:
        pass

    async def publish(self, id: str, _message: bytes) -> int:
        self.ids.append(id)
        error = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        if error is not None:
            raise error
        return len(self.ids)


def publisher_to(log: _Log) -> Publisher:
    return Publisher(cast(ThisHost, log), cast(LogWatch, log), cast(Applier, None))


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "GIVE_UP_SECONDS", 0.01)
    monkeypatch.setattr(publishing, "PAUSE_SECONDS", 0.01)


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
            applied.cancel()  # as `OwnChanges.fail` does
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
    groups = GroupPublisher(publisher_to(log), OwnChanges())
    payload = np.frombuffer(bytearray(b'{"a":1}{"a":2}'), np.uint8)
    starts, ends = np.array([0, 7]), np.array([7, 14])
    items = Items(payload, starts, ends, np.zeros(2, np.uint64), np.zeros(2, np.bool_))
    batch = WriteBatch(2, 14, items=items)
    applied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    await groups.publish(1, [batch], applied)
    with pytest.raises(ServiceError) as caught:
        await batch.future
    assert ("nothing was written" in caught.value.message) is not is_sent
