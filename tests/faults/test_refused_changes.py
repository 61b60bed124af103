"""The disk fails in the middle of changes of indexes, aliases, snapshots and keys.

    a random change ──▶ sent, while the n-th change of the disk fails: once, or from there on (full)
                        ├─ answered with success    the state after the change
                        ├─ 507                      the state before it
                        └─ 500, 503, no answer      one of the two, never anything between

Like `test_killed_changes`, with the disk in the place of the kill. What clients see after a failure
is also what they see after a kill: nothing may be acknowledged that only this process has.
"""

from __future__ import annotations

import http.client
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.faults.failing_disk import COMPILER, FailingDisk
from tests.faults.test_killed_changes import Bench as KilledBench
from tests.faults.test_killed_changes import Change, State, send_change
from tests.service import Reply, Service
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="needs a C compiler for the library that lets calls fail"
)

T = TypeVar("T")


class Bench(KilledBench):
    """A service on a disk that fails, and what it must have.

    Args:
        service: which runs.
        seed: of the chance.
        disk: of its data.
    """

    def __init__(self, service: Service, seed: int, disk: FailingDisk) -> None:
        super().__init__(service, seed)
        self.disk = disk

    def round(self) -> None:
        """Send a change, let the disk fail meanwhile, and see what came of it."""
        for _ in range(self.chance.randrange(3)):
            self.write()
        change = self.dice.change(self.state)
        is_full = self.chance.random() < 0.5
        nth = self.chance.choice([1, 2, 3, 4, 5, 7, 9, 12, 15, 20, 30, 50])
        reply, has_failed = self.send(change, nth, is_full=is_full)
        status = reply.status if reply is not None else 0
        where = (change.kind, change.path, change.body, nth, is_full, has_failed, reply)
        self.outcomes[change.kind, "full" if is_full else "error", str(status)] += 1
        assert status == 200 or has_failed, where
        assert status in ((0, 200, 503, 507) if is_full else (0, 200, 500, 503)), where
        possible = {200: [change.after], 507: [self.state]}.get(status, [self.state, change.after])
        found = self.look(where)
        assert found in possible, (where, found)
        self.state = found
        if has_failed and self.chance.random() < 0.4:
            self.write()
            self.client.close()
            self.service.restart()
            assert self.look(where) == self.state, where
        elif found != change.after:
            wait_until(
                lambda: send_change(self.client, change).status == 200, problem=lambda: where
            )
            self.state = change.after
            assert self.look(where) == self.state, where

    def send(self, change: Change, nth: int, *, is_full: bool) -> tuple[Reply | None, bool]:
        """Send a change to a disk that fails; return the reply, if any, and whether it failed."""
        self.disk.watch(self.service.data)
        (self.disk.fill if is_full else self.disk.fail)(nth)
        reply = None
        with closing(self.service.client(60)) as client:
            client.headers = self.headers
            with suppress(OSError, http.client.HTTPException):
                reply = send_change(client, change)
        has_failed = self.disk.has_failed
        if is_full and has_failed:
            wait_until(self.can_read, problem=lambda: change)
        self.disk.heal()
        self.client.close()
        wait_until(lambda: not self.is_shard_ending(), problem=lambda: change)
        self.service.wait_ready(30)
        return reply, has_failed

    def is_shard_ending(self) -> bool:
        """Whether a shard has said that it ends, and has not: the next change would fail."""
        log = self.service.log()
        return any(
            log.rfind(f' error shard-{number} "ending"')
            > log.rfind(f'"ended" what="shard {number}"')
            for number in range(self.service.num_shards)
        )

    def write(self) -> None:
        """Write to an index."""
        self.while_shards_end(super().write)

    def look(self, where: Any) -> State:
        """Read the state."""
        return self.while_shards_end(partial(super().look, where))

    def while_shards_end(self, do: Callable[[], T]) -> T:
        """Do something again if a shard, which was about to end, had been ready for a moment."""
        for _ in range(20):
            try:
                return do()
            except AssertionError as error:
                if "shard_unavailable" not in str(error):
                    raise
                self.service.wait_ready(30)
        return do()

    def can_read(self) -> bool:
        """Whether each index can be searched, or is not there any more."""
        with suppress(OSError, http.client.HTTPException):
            replies = [self.client.get(f"/{name}/search") for name in self.state.indexes]
            return all(reply.status in (200, 404) for reply in replies)
        self.client.close()
        return False


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    (tmp_path / "library").mkdir()
    disk = FailingDisk(tmp_path / "library")
    yield disk
    disk.close()


def run_rounds(data: Path, disk: FailingDisk, num_shards: int, num_rounds: int, seed: int) -> Any:
    """Run rounds on one data directory; raises at the first one that shows a problem."""
    with Service(data, num_shards, environment=disk.environment) as service:
        bench = Bench(service, seed, disk)
        for _ in range(num_rounds):
            bench.round()
        bench.end()
        log = service.log()
    assert not re.findall(r".* error coordinator .*Traceback.*", log)
    return bench.outcomes


@pytest.mark.timeout(240)
def test_a_change_that_the_disk_refuses_has_happened_or_not(
    tmp_path: Path, disk: FailingDisk
) -> None:
    run_rounds(tmp_path / "data", disk, 2, 8, seed=1)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("num_shards", [1, 2, 3])
def test_hundreds_of_changes_that_the_disk_refuses_have_happened_or_not(
    tmp_path: Path, disk: FailingDisk, num_shards: int
) -> None:
    outcomes: Counter[Any] = run_rounds(tmp_path / "data", disk, num_shards, 300, 200 + num_shards)
    refused = {kind for kind, _, status in outcomes if status in ("500", "503", "507")}
    assert len(refused) > 6
