"""Data of one host for another, over a connection that loses requests and responses."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from coordinator.replication.host.replica_file import Position
from coordinator.replication.log.log_entries import CONTENT_BYTES_MAX
from coordinator.replication.log.log_errors import LogAway, NotConnected
from coordinator.replication.snapshot_transfer import donor, recipient
from coordinator.replication.snapshot_transfer.donor import Donor, folder_name
from coordinator.replication.snapshot_transfer.recipient import (
    CopiedFile,
    CopyRequest,
    CopyResult,
    take_snapshot,
)
from coordinator.snapshots import snapshots_on_disk
from coordinator.snapshots.snapshots_on_disk import SNAPSHOT_FILE, ServiceSnapshot, SnapshotFile

DATA = b"one host's data" * 50
FILE = "shard-0/shard.json"


class _Connection:
    """Stands for the log's stream of both hosts, and for the client of it.

    Attributes:
        losses: of the next requests: "request", "response" or "" for none.
        asked: what each request was for: "copy" or "read".
        num_named: files in the last response to "copy".
        is_heard: set once the giving host listens.
        is_lost_at_end: whether the giving host cannot be told that all was taken.
    """

    name = "facetd"
    is_connected = True

    def __init__(self) -> None:
        self.losses: list[str] = []
        self.asked: list[str] = []
        self.num_named = 0
        self.is_heard = asyncio.Event()
        self.is_lost_at_end = False
        self._callbacks: dict[str, Callable[[Any], Awaitable[None]]] = {}

    def client(self) -> _Connection:
        if not self.is_connected:
            raise NotConnected("no server of the log is connected")
        return self

    async def subscribe(self, subject: str, cb: Callable[[Any], Awaitable[None]]) -> None:
        self._callbacks[subject] = cb
        if subject.endswith(".done"):
            self.is_heard.set()

    def hang_up(self) -> None:
        """Forget the giving host."""
        self._callbacks.clear()
        self.is_heard.clear()

    async def tell(self, subject: str, content: bytes) -> None:
        if self.is_lost_at_end:
            raise LogAway("the connection was lost")
        await self._callbacks[subject](SimpleNamespace(data=content))

    async def ask(self, subject: str, content: bytes, seconds: float) -> Any:
        self.asked.append(subject.rpartition(".")[2])
        loss = self.losses.pop(0) if self.losses else ""
        responses: list[bytes] = []

        async def respond(data: bytes) -> None:
            responses.append(data)

        if loss != "request" and subject in self._callbacks:
            await self._callbacks[subject](SimpleNamespace(data=content, respond=respond))
        if loss == "response" or not responses:
            raise LogAway("the log does not answer")
        if subject.endswith(".copy"):
            self.num_named = len(msgspec.json.decode(responses[0], type=CopyResult).files)
        return SimpleNamespace(data=responses[0])


class _Hosts:
    """A host that gives its data, and the connection of the one that takes them.

    Attributes:
        made: names of the snapshots that were made.
        may_finish: set where snapshots come to an end.
    """

    def __init__(self, folder: Path) -> None:
        self.connection = _Connection()
        self.made: list[str] = []
        self.may_finish = asyncio.Event()
        self.may_finish.set()
        self.folder = folder
        host: Any = SimpleNamespace(
            id="giver",
            shards=(),
            stream=self.connection,
            settings=SimpleNamespace(snapshot_folder=folder),
            serving=SimpleNamespace(position=Position(7, 8)),
        )
        self._host = host
        self._running = asyncio.create_task(Donor(host, self._make).run())

    async def _make(
        self, name: str, shards: tuple[int, ...] | None, horizons: Mapping[int, int] | None
    ) -> ServiceSnapshot:
        self.made.append(name)
        await self.may_finish.wait()
        path = self.folder / name / FILE
        path.parent.mkdir(parents=True)
        path.write_bytes(DATA)
        files = (SnapshotFile(FILE, len(DATA), ""),)
        snapshot = ServiceSnapshot(1, name, "", "", 1, (), files)
        snapshots_on_disk.write_snapshot(self.folder / name, snapshot)
        return snapshot

    async def take(self, target: Path) -> Position:
        """Take the data into a folder."""
        await self.connection.is_heard.wait()
        stream: Any = self.connection
        return await take_snapshot(stream, "giver", target)

    @property
    def is_running(self) -> bool:
        """Whether the giving host still gives."""
        return not self._running.done()

    async def restart(self) -> None:
        """End the giving host, and start it again."""
        self.connection.hang_up()
        await self.stop()
        self._running = asyncio.create_task(Donor(self._host, self._make).run())

    async def stop(self) -> None:
        """Stop giving."""
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


@pytest.fixture
async def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_Hosts]:
    """Return two hosts, of which one waits no time between its questions."""
    monkeypatch.setattr(recipient, "ASK_PAUSE_SECONDS", 0)
    pair = _Hosts(tmp_path / "snapshots")
    yield pair
    await pair.stop()


@pytest.mark.parametrize(
    "losses",
    [
        [],
        ["request"],
        ["response"],
        ["response", "request", "response"],
        ["", "response"],  # of the file
        ["", "request", "request"],
    ],
    ids="-".join,
)
async def test_what_is_lost_is_asked_again(
    hosts: _Hosts, tmp_path: Path, losses: list[str]
) -> None:
    taken = tmp_path / "taken"
    hosts.connection.losses = list(losses)
    assert await hosts.take(taken) == Position(7, 8)
    assert (taken / FILE).read_bytes() == DATA
    assert (taken / SNAPSHOT_FILE).exists()
    assert len(hosts.made) == 1, "a request that is sent again is the same"
    assert not list(hosts.folder.iterdir()), "the snapshot is removed"


async def test_a_host_that_loses_the_log_while_it_starts_gives_later(
    hosts: _Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Donor._remove_all
    is_lost = threading.Event()

    def remove_all(giver: Donor) -> None:
        real(giver)
        hosts.connection.is_connected = False
        is_lost.set()

    monkeypatch.setattr(Donor, "_remove_all", remove_all)
    monkeypatch.setattr(donor, "OFFER_SECONDS", 0.01)
    await hosts.restart()
    await asyncio.to_thread(is_lost.wait)
    await asyncio.sleep(0.05)
    assert hosts.is_running
    hosts.connection.is_connected = True
    assert await hosts.take(tmp_path / "taken") == Position(7, 8)


async def test_more_files_than_a_message_can_name_are_taken(
    hosts: _Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand indexes on two shards have as many; the response with all names was refused."""
    longest = CopiedFile(f"shard-99/index-{'9' * 19}/data.mdb", 1 << 40)
    named = CopyResult("n" * 64, files=(longest,) * (donor.FILES_LISTED_MAX + 1))
    assert len(msgspec.json.encode(named)) < CONTENT_BYTES_MAX

    monkeypatch.setattr(donor, "FILES_LISTED_MAX", 0)
    taken = tmp_path / "taken"
    assert await hosts.take(taken) == Position(7, 8)
    assert (taken / FILE).read_bytes() == DATA
    assert hosts.connection.num_named == 1


async def test_what_is_copied_is_kept_if_the_connection_is_lost_then(
    hosts: _Hosts, tmp_path: Path
) -> None:
    hosts.connection.is_lost_at_end = True
    assert await hosts.take(tmp_path / "taken") == Position(7, 8)


async def test_a_long_snapshot_is_waited_for(hosts: _Hosts, tmp_path: Path) -> None:
    """Each question is answered at once, so that a lost answer is noticed."""
    hosts.may_finish.clear()
    taking = asyncio.create_task(hosts.take(tmp_path / "taken"))
    while hosts.connection.asked.count("copy") < 5:  # noqa: ASYNC110 - of another task
        await asyncio.sleep(0)
    hosts.may_finish.set()
    assert await taking == Position(7, 8)
    assert len(hosts.made) == 1


async def test_a_host_that_restarts_meanwhile_begins_again(hosts: _Hosts, tmp_path: Path) -> None:
    hosts.may_finish.clear()
    taking = asyncio.create_task(hosts.take(tmp_path / "taken"))
    while not hosts.made:  # noqa: ASYNC110 - of another task
        await asyncio.sleep(0)
    await hosts.restart()
    hosts.may_finish.set()
    assert await taking == Position(7, 8)


async def test_unread_copies_are_removed(hosts: _Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the taker of another gives it back."""
    monkeypatch.setattr(donor, "IDLE_SECONDS", 0.3)
    await hosts.restart()
    await hosts.connection.is_heard.wait()

    async def ask(name: str) -> CopyResult:
        request = msgspec.json.encode(CopyRequest(name=name))
        answer = await hosts.connection.ask("facetd.peers.giver.copy", request, 1)
        return msgspec.json.decode(answer.data, type=CopyResult)

    names = [f"{recipient.PREFIX}{number}" for number in range(3)]
    removed: list[str] = []
    remove = shutil.rmtree
    loop = asyncio.get_running_loop()

    def remove_slowly(folder: Path, *, ignore_errors: bool) -> None:
        removed.append(folder.name)
        if folder.name == folder_name("giver", names[0]):
            done = hosts.connection.tell("facetd.peers.giver.done", names[1].encode())
            asyncio.run_coroutine_threadsafe(done, loop).result()
        remove(folder, ignore_errors=ignore_errors)

    for name in names:
        while (await ask(name)).is_pending:  # noqa: ASYNC110 - of another task
            await asyncio.sleep(0)
    monkeypatch.setattr(shutil, "rmtree", remove_slowly)
    while len(removed) < len(names):
        assert hosts.is_running, removed
        await asyncio.sleep(0.01)
    assert sorted(removed) == [folder_name("giver", name) for name in names]


async def test_a_start_removes_the_copies_for_others_and_no_snapshot_of_a_client(
    hosts: _Hosts,
) -> None:
    """One that was called `replica-…` was taken for a copy, and removed."""
    await hosts.connection.is_heard.wait()
    request = msgspec.json.encode(CopyRequest())
    await hosts.connection.ask("facetd.peers.giver.copy", request, 1)
    while not list(hosts.folder.glob(f"*/{SNAPSHOT_FILE}")):  # noqa: ASYNC110 - of another task
        await asyncio.sleep(0)
    (copy,) = hosts.folder.iterdir()
    assert not snapshots_on_disk.NAME.fullmatch(copy.name), "it counts as a snapshot of the service"
    mine = snapshots_on_disk.check_name(f"{recipient.PREFIX}monday")
    (hosts.folder / mine).mkdir()
    of_another = folder_name("other", f"{recipient.PREFIX}1")
    (hosts.folder / of_another).mkdir()

    await hosts.restart()
    await hosts.connection.is_heard.wait()

    assert {one.name for one in hosts.folder.iterdir()} == {mine, of_another}


async def test_a_host_whose_folder_of_snapshots_does_not_answer_at_its_start_gives_later(
    hosts: _Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ESTALE, "stale file handle")

    hosts.folder.mkdir()
    await hosts.connection.is_heard.wait()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Path, "glob", refuse)
        await hosts.restart()
        async with asyncio.timeout(5):
            await hosts.connection.is_heard.wait()
    assert await hosts.take(tmp_path) == Position(7, 8)


async def test_a_silent_host_is_given_up(
    hosts: _Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipient, "SILENCE_SECONDS", 0.05)
    hosts.connection.losses = ["request"] * 1_000_000
    with pytest.raises(LogAway, match="the host has not answered for 0 s"):
        await hosts.take(tmp_path / "taken")


async def test_a_silent_host_is_given_up_once_it_is_known_to_be_away(
    hosts: _Hosts, tmp_path: Path
) -> None:
    await hosts.connection.is_heard.wait()
    hosts.connection.losses = ["response"] * 1_000_000
    stream: Any = hosts.connection
    asked = hosts.connection.asked
    with pytest.raises(LogAway, match="the host has not answered"):
        await take_snapshot(
            *(stream, "giver", tmp_path), patience=lambda: 60.0 if len(asked) < 3 else 0.0
        )
    assert len(asked) == 3


@pytest.mark.parametrize("name", ["../../etc", "replica-../x", "mine", ""])
async def test_a_snapshot_lies_where_snapshots_lie(hosts: _Hosts, name: str) -> None:
    await hosts.connection.is_heard.wait()
    request = msgspec.json.encode(CopyRequest(name=name))
    answer = await hosts.connection.ask("facetd.peers.giver.copy", request, 1)
    assert "invalid name" in msgspec.json.decode(answer.data, type=CopyResult).error
    assert hosts.made == []


async def test_a_host_of_another_version_is_not_understood(
    hosts: _Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start ended with a traceback."""

    async def ask(subject: str, content: bytes = b"", seconds: float = 0) -> Any:
        return SimpleNamespace(data=b'{"host": 1, "name": 1}')

    monkeypatch.setattr(hosts.connection, "ask", ask)
    stream: Any = hosts.connection
    with pytest.raises(LogAway, match="cannot be read"):
        await recipient.find_offer(stream)
    with pytest.raises(LogAway, match="cannot be read"):
        await take_snapshot(stream, "giver", tmp_path, CopyRequest())
