"""The power goes at any moment: what was acknowledged is there, whole, and the service starts.

A real service is traced while it works (disk_trace); for chosen moments the states that the disk
may then be in are made (disk_states) and opened by the code that opens them in the service. Each
state must start, have every write that was acknowledged before, no item that is torn or came back,
facet counts that agree with the items, and take the next write.

Short in CI (a seeded choice of states), thousands of states with --long.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from common import data_directory
from tests.faults.disk_states import Chance, History, Tree
from tests.faults.disk_trace import IGNORED_NAMES, Trace
from tests.faults.state_after_power_loss import Found, check_problems, examine, look, start, stop
from tests.faults.traced_run import NUM_SHARDS, Recording, record
from tests.service import ROOT, Service

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None, reason="needs strace to see what is written"
)

LOST = Chance(kept=0.0)
ALL = Chance(kept=1.0)
CHANCES = (
    LOST,
    ALL,
    Chance(kept=0.5),
    Chance(kept=0.5, is_journaled=True),
    Chance(kept=0.5, torn=0.7),
    Chance(kept=0.9, torn=0.7, is_journaled=True),
    Chance(kept=0.9, torn=0.3),
    Chance(kept=1.0, torn=1.0),
)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(tmp_path_factory.mktemp("power"))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for states; in memory where there is one, for they are many."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="facetd-power-", dir=parent) as folder:
        yield Path(folder)


def explore(
    history: History,
    place: Path,
    choices: Iterator[tuple[int, Chance, int]],
    look_at: Callable[[Path, int], list[str]],
) -> int:
    """Look at states (and where they were cut); returns how many different ones there were."""
    seen: set[int] = set()
    for cut, chance, seed in choices:
        tree = history.state(cut, chance, random.Random(seed))
        digest = hash(tuple(sorted((path, content) for path, content in tree.entries.items())))
        if digest in seen:
            continue
        seen.add(digest)
        folder = place / "state"
        tree.write(folder)
        where = f"cut {cut}, {chance}, seed {seed}"
        try:
            problems = look_at(folder, cut)
        except Exception as error:
            raise AssertionError(f"does not start: {where}") from error
        assert not problems, (where, problems[:10])
        if folder.exists():
            shutil.rmtree(folder)
    return len(seen)


def sample(history: History, num: int, seed: int) -> Iterator[tuple[int, Chance, int]]:
    """Choose states at random."""
    generator = random.Random(seed)
    for _ in range(num):
        yield (
            generator.choice(history.moments),
            generator.choice(CHANCES),
            generator.randrange(1 << 30),
        )


def look_at_service(recording: Recording) -> Callable[[Path, int], list[str]]:
    return lambda data, cut: asyncio.run(
        examine(data, recording.journal, recording.history.time_after(cut))
    )


def test_the_trace_has_every_change(recording: Recording) -> None:
    """All changes together make exactly what is in the folder: nothing was overlooked."""
    final = recording.history.final().entries
    real = Tree.read(recording.data, IGNORED_NAMES).entries
    assert sorted(final) == sorted(real)
    assert [path for path in final if final[path] != real[path]] == []
    assert len(recording.history.moments) > 500


def test_no_state_after_a_power_loss_loses_anything(recording: Recording, place: Path) -> None:
    choices = sample(recording.history, 48, seed=1)
    assert explore(recording.history, place, choices, look_at_service(recording)) > 30


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_state_of_thousands_loses_anything(recording: Recording, place: Path) -> None:
    choices = sample(recording.history, 4_000, seed=2)
    assert explore(recording.history, place, choices, look_at_service(recording)) > 1000


def test_what_a_killed_process_wrote_is_on_disk_before_it_is_believed(recording: Recording) -> None:
    """It may be in memory alone: what was read once, and answered again, must not go any more."""
    paths = list(recording.data.glob("shard-*/index-1/data.mdb"))
    assert len(paths) == NUM_SHARDS
    for path in paths:
        changes = [change for change in recording.second_run if change.path == str(path)]
        assert [change.kind for change in changes[:3]] == ["write", "write", "sync"]  # meta pages
        shard = next(one for one in recording.second_run if one.path == str(path.parent.parent))
        assert (shard.kind, shard.end < changes[0].begin) == ("sync", True)  # name of shard.json


@pytest.mark.timeout(120)
def test_the_service_starts_on_what_is_left(recording: Recording, tmp_path: Path) -> None:
    """The same once more from outside: by the same command, over HTTP."""
    cut = recording.history.moments[-1]
    tree = recording.history.state(cut, Chance(kept=0.5, torn=0.7), random.Random(3))
    tree.write(tmp_path / "data")
    expected = {
        key[1]: recording.journal.possible(key, 1e99)
        for key in recording.journal.attempts
        if key[0] == "a" and len(key) == 2
    }
    with Service(tmp_path / "data", NUM_SHARDS) as service:
        client = service.client()
        answer = client.search("a", per_page=1000)
        items = {item["id"]: item for item in answer["data"]["items"]}
        for key, possible in expected.items():
            assert items.pop(key, None) in possible
        assert not items
        client.close()


# --- the commands that put a whole directory in place


Served = tuple[int, dict[str, Found]]
"""The number of shards, and what they have."""


@dataclass
class CommandRun:
    """A traced command: history of the folder with the data directory, data before and after."""

    history: History
    before: Served | None
    after: Served


def look_only(data: Path) -> Served:
    """Return what a data directory serves; it must be without a problem."""

    async def run() -> Served:
        catalog, shards = await start(data)
        found = look(catalog, shards)
        await stop(shards)
        return len(shards), found

    found = asyncio.run(run())
    assert not check_problems(data)
    return found


def run_command(folder: Path, log: Path, *arguments: str) -> CommandRun:
    """Run `facetd` with arguments, traced, on the data directory in a folder."""
    data = folder / "data"
    before = Tree.read(folder, IGNORED_NAMES)
    copy = folder.with_name("copy")
    before.write(copy)
    found = look_only(copy / "data") if data.exists() else None
    trace = Trace(folder, log)
    command = [sys.executable, "-m", "coordinator", *arguments, "--data-dir", str(data)]
    subprocess.run([*trace.wrapper, *command], cwd=ROOT, check=True, timeout=100)
    history = History(folder, trace.changes(), before)
    assert history.final().entries == Tree.read(folder, IGNORED_NAMES).entries
    return CommandRun(history, found, look_only(data))


@pytest.fixture(scope="module")
def commands(
    recording: Recording, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, CommandRun]:
    """A restore, and a reshard of what it has made."""
    place = tmp_path_factory.mktemp("commands").resolve()
    folder = place / "folder"
    folder.mkdir()
    backup = data_directory.snapshots_folder(recording.data) / "two"
    restored = run_command(folder, place / "restore.trace", "restore", str(backup))
    shutil.rmtree(folder.with_name("copy"))
    resharded = run_command(folder, place / "reshard.trace", "reshard", "--shards", "3")
    return {"restore": restored, "reshard": resharded}


def look_at_command(run: CommandRun) -> Callable[[Path, int], list[str]]:
    """What is there is what was there before, or what the command made; never in between."""
    last = run.history.moments[-1]

    def look_at(folder: Path, cut: int) -> list[str]:
        data = folder / "data"
        found = None
        if data.is_dir() and any(data.iterdir()):
            found = look_only(data)
        wanted = [run.after] if cut == last else [run.before, run.after]
        return [] if found in wanted else [f"found {found}"]

    return look_at


@pytest.mark.parametrize("command", ["restore", "reshard"])
def test_a_command_leaves_the_old_or_the_new(
    commands: dict[str, CommandRun], place: Path, command: str
) -> None:
    run = commands[command]
    last = [(run.history.moments[-1], chance, 1) for chance in (LOST, CHANCES[4])]
    choices = itertools.chain(last, sample(run.history, 12, seed=5))
    assert explore(run.history, place, choices, look_at_command(run)) > 5


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("command", ["restore", "reshard"])
def test_a_command_leaves_the_old_or_the_new_at_any_moment(
    commands: dict[str, CommandRun], place: Path, command: str
) -> None:
    run = commands[command]
    assert explore(run.history, place, sample(run.history, 1_000, 6), look_at_command(run)) > 50
