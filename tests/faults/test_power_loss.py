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
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from common import data_directory
from common.protocol.messages import (
    ApplyRequest,
    FacetRequest,
    SearchRequest,
    SearchResponse,
)
from common.protocol.operations import Operation
from common.shard_settings import ShardSettings
from common.values import facet_key
from coordinator.cluster.catalog import Catalog, Index
from coordinator.cluster.snapshots import list_snapshots, verify
from shard.maintenance.check import check_index
from shard.partition.catalog_follower import CatalogFollower
from shard.partition.indexes import Indexes
from shard.partition.open_index import OpenIndex
from shard.read import searcher
from tests.common.protocol.packed_model import unpack
from tests.faults.disk_states import Chance, History, Tree
from tests.faults.disk_trace import IGNORED_NAMES, Change, Trace, join
from tests.service import ROOT, Client, Reply, Service
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None, reason="needs strace to see what is written"
)

NUM_SHARDS = 2
SETTINGS = {
    "FACETD_SHARD_FLUSH_DOCS": "40",  # small files, and many of them
    "FACETD_SHARD_IDLE_MS": "100",
}
SHARD_SETTINGS = ShardSettings(flush_docs=40, map_bytes_max=1 << 30)

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

Item = dict[str, Any]


@dataclass
class Attempt:
    """Something that was asked for: when, whether and when it was acknowledged, what it makes."""

    sent_at: float
    state: Any
    acknowledged_at: float = 1e99


@dataclass
class Journal:
    """Everything that was asked of a service, by what it concerns.

    Keys are (index, id) for items, (index,) for configurations, and ("", name) for snapshots; a
    state of None means: not there.
    """

    attempts: dict[tuple[str, ...], list[Attempt]] = field(default_factory=dict)

    def ask(
        self, client: Client, states: dict[tuple[str, ...], Any], send: Callable[[], Reply]
    ) -> None:
        """Send a request that makes states; note when, and when it was acknowledged."""
        sent_at = time.time()
        attempts = []
        for key, state in states.items():
            attempts.append(Attempt(sent_at, state))
            self.attempts.setdefault(key, []).append(attempts[-1])
        try:
            reply = send()
        except OSError:
            client.close()
            return
        assert reply.status == 200, reply.body
        for attempt in attempts:
            attempt.acknowledged_at = time.time()

    def possible(self, key: tuple[str, ...], moment: float) -> list[Any]:
        """Return the states that there may be if nothing was done after a moment."""
        states = [None]
        for attempt in self.attempts.get(key, ()):
            if attempt.acknowledged_at < moment:
                states = [attempt.state]
            elif attempt.sent_at < moment:
                states.append(attempt.state)
        return states


# --- the run that is traced


def make_item(key: str, version: int, generator: random.Random) -> Item:
    return {
        "id": key,
        "version": version,
        "colour": generator.choice(["red", "green", "blue"]),
        "tags": generator.sample(["a", "b", "c", "d"], generator.randrange(4)),
        "name": f"thing {version} of {key}",
        "text": generator.randbytes(generator.choice([10, 60, 700])).hex(),
    }


def write(port: int, journal: Journal, number: int, rounds: int, seed: int) -> None:
    """Add, replace, merge, delete and load items of one writer's own."""
    generator = random.Random(seed)
    client = Client(port)
    stored: dict[str, Item] = {}
    for version in range(rounds):
        keys = [f"w{number}-{generator.randrange(40)}" for _ in range(generator.randrange(1, 9))]
        items = {key: make_item(key, version, generator) for key in keys}
        states: dict[tuple[str, ...], Any] = {("a", key): item for key, item in items.items()}
        choice = generator.random()
        if choice < 0.2 and stored:
            key = generator.choice(sorted(stored))
            changed = {**stored[key], "version": version, "colour": "merged"}
            stored[key] = changed
            body = {"version": version, "colour": "merged"}
            path = f"/a/items/{key}/partial"
            journal.ask(client, {("a", key): changed}, lambda p=path, b=body: client.post(p, b))  # type: ignore[misc]
            continue
        if choice < 0.4 and stored:
            key = generator.choice(sorted(stored))
            del stored[key]
            path = f"/a/items/{key}"
            journal.ask(client, {("a", key): None}, lambda p=path: client.delete(p))  # type: ignore[misc]
            continue
        stored.update(items)
        if choice < 0.6:
            body_text = b"\n".join(json.dumps(item).encode() for item in items.values())
            journal.ask(client, states, lambda b=body_text: client.post_text("/a/index", b))  # type: ignore[misc]
        else:
            journal.ask(client, states, lambda i=items: client.post("/a/items", list(i.values())))  # type: ignore[misc]
    client.close()


def configure(client: Client, journal: Journal, index: str, *facets: str) -> None:
    configuration = {"aggregations": {facet: {"size": 100} for facet in facets}}
    states: dict[tuple[str, ...], Any] = {(index,): configuration}
    journal.ask(client, states, lambda: client.post(f"/{index}/configuration", configuration))


def write_together(port: int, journal: Journal, first: int, rounds: int) -> None:
    """Let three writers write at once, so that groups have several of them."""
    threads = [
        threading.Thread(target=write, args=(port, journal, number, rounds, number))
        for number in range(first, first + 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class Recording:
    """A run with all that it asked for and all that it wrote."""

    data: Path
    history: History
    journal: Journal
    second_run: list[Change]


def stored_indexes(client: Client) -> list[dict[str, Any]]:
    """Return what the shards say of their indexes."""
    return [index for shard in client.get("/_stats").json["shards"] for index in shard["indexes"]]


def is_merged(client: Client) -> bool:
    """Return whether the shards have merged what they have, and so removed dead records.

    A segment with less than a tenth of the documents of the other stays by itself when writes stop.
    """
    indexes = stored_indexes(client)
    return bool(indexes) and all(one["segments"] <= 2 and not one["merging"] for one in indexes)


def write_everything(port: int, client: Client, journal: Journal) -> None:
    """Ask for every kind of write: items, configurations, an index deleted, snapshots."""
    configure(client, journal, "a", "colour")
    write_together(port, journal, 0, 14)
    configure(client, journal, "b", "colour")
    item = {"id": 1, "colour": "red"}
    journal.ask(client, {("b", "1"): item}, lambda: client.post("/b/items", [item]))
    configure(client, journal, "a", "colour", "tags")
    journal.ask(client, {("", "one"): True}, lambda: client.post("/_snapshots", {"name": "one"}))
    journal.ask(client, {("b",): None}, lambda: client.delete("/b"))
    journal.ask(client, {("", "two"): True}, lambda: client.post("/_snapshots", {"name": "two"}))
    journal.ask(client, {("", "one"): None}, lambda: client.delete("/_snapshots/one"))
    write_together(port, journal, 3, 5)


def record(folder: Path) -> Recording:
    """Run a service through everything that writes, with a SIGKILL in the middle, and trace it."""
    data = folder.resolve() / "data"
    traces = [Trace(data, folder / f"trace-{run}") for run in range(2)]
    journal = Journal()
    service = Service(data, NUM_SHARDS, environment=SETTINGS, wrapper=traces[0].wrapper)
    with service:
        with closing(service.client()) as client:
            write_everything(service.port, client, journal)
        service.kill_all()
        first = traces[0].changes()
        service.wrapper = traces[1].wrapper
        service.start()
        with closing(service.client()) as client:
            write_together(service.port, journal, 6, 8)
            wait_until(lambda: is_merged(client), problem=lambda: stored_indexes(client))
            last = {"id": "last", "colour": "red"}
            journal.ask(client, {("a", "last"): last}, lambda: client.post("/a/items", [last]))
        assert service.terminate() == 0
    second = traces[1].changes()
    return Recording(data, History(data, join(first, second)), journal, second)


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


# --- what the code makes of a state


@dataclass
class Found:
    """An index as it is served: configuration, items, counts by facet."""

    configuration: dict[str, Any]
    items: dict[str, Item]
    counts: dict[str, Counter[str]]


async def start(data: Path) -> tuple[Catalog, list[Indexes]]:
    """Open a data directory as coordinator and shards do."""
    data_directory.create(data)
    manifest = data_directory.read_manifest(data)
    num_shards = NUM_SHARDS if manifest is None else manifest.shards
    catalog = Catalog.open(data, num_shards)
    shards = []
    for shard in range(num_shards):
        folder = data_directory.shard_folder(data, shard)
        data_directory.create(folder)
        failures: list[BaseException] = []
        indexes = Indexes(
            folder,
            shard=shard,
            num_shards=num_shards,
            settings=SHARD_SETTINGS,
            on_failure=failures.append,
        )
        shards.append(indexes)
        indexes.start()
        await CatalogFollower(indexes, failures.append).take(catalog.message())
        assert indexes.is_ready
        for entry in catalog.indexes.values():  # also those that no write has reached
            await indexes.opened(entry.number)
        assert not failures
    return catalog, shards


async def stop(shards: list[Indexes]) -> None:
    """Stop in order, so that another start finds all of it in files."""
    for indexes in shards:
        opened = indexes.open.all()
        await indexes.close()
        for index in opened:
            index.partition.close()


def search(index: OpenIndex, entry: Index, horizon: int) -> SearchResponse:
    """Return all items and facet counts of one shard."""
    request = SearchRequest(
        index=entry.number,
        horizon=horizon,
        revision=entry.revision,
        query=None,
        filters=(),
        facets=tuple(
            FacetRequest(path, leaves_out_own=False, num_alive_wanted=0)
            for path in entry.configuration.facets
        ),
        ranges=(),
        sort=(),
        is_place_descending=False,
        num_hits=100_000,
        num_documents=100_000,
    )
    snapshot = index.partition.snapshot_at(horizon, entry.revision)
    assert snapshot.revision == entry.revision
    return searcher.search(snapshot, request)


def look(catalog: Catalog, shards: list[Indexes]) -> dict[str, Found]:
    """Return all indexes as they are served."""
    horizon = max(indexes.folders.seq_max for indexes in shards)
    result = {}
    for name, entry in catalog.indexes.items():
        found = result[name] = Found(entry.document, {}, {})
        for indexes in shards:
            index = indexes.open[entry.number]
            response = search(index, entry, horizon)
            documents = [orjson.loads(document) for document in response.documents]
            assert response.total == len(documents)
            for item in documents:
                assert str(item["id"]) not in found.items, "an id is there twice"
                found.items[str(item["id"])] = item
            unpacked = unpack(response.facet_counts, len(response.facets))
            for facet, counts in zip(response.facets, unpacked, strict=True):
                dictionary = index.partition.newest.dictionaries[facet.field]
                values = dictionary.values(0, facet.num_values)
                total = found.counts.setdefault(facet.field, Counter())
                for number, count in counts.items():
                    total[values[number]] += count
    return result


def naive_counts(items: dict[str, Item], path: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for item in items.values():
        value = item.get(path, [])
        values = value if isinstance(value, list) else [value]
        counts.update({facet_key(one) or "" for one in values})
    return counts


def problems_of(found: dict[str, Found], journal: Journal, moment: float) -> list[str]:
    """Compare what is served with what was acknowledged, and not, before a moment."""
    problems = []
    for key in journal.attempts:
        index = key[0]
        possible = journal.possible(key, moment)
        if not index:
            continue
        if len(key) == 1:
            state = found[index].configuration if index in found else None
        elif index not in found:
            continue
        else:
            state = found[index].items.get(key[1])
        if state not in possible:
            kind = "resurrected" if possible == [None] else "lost" if state is None else "torn"
            problems.append(f"{kind}: {key} is {state}, possible are {possible}")
    for name, index_found in found.items():
        unknown = [item for item in index_found.items if (name, item) not in journal.attempts]
        if unknown:
            problems.append(f"{unknown} in {name} was never written")
        for path, counts in index_found.counts.items():
            expected = naive_counts(index_found.items, path)
            if counts != expected:
                problems.append(f"{name}: facet {path} is {counts} instead of {expected}")
    return problems


def write_more(catalog: Catalog, shards: list[Indexes]) -> None:
    """Write an item to every index on every shard: what was opened must go on."""
    seq = max(indexes.folders.seq_max for indexes in shards)
    for entry in catalog.indexes.values():
        for indexes in shards:
            seq += 1
            content = orjson.dumps({"id": f"after {seq}", "colour": "new"})
            indexes.open[entry.number].writer.apply(
                ApplyRequest(
                    index=entry.number,
                    seq=seq,
                    horizon=seq - 1,
                    payload=content,
                    lengths=np.array([len(content)], np.uint32).tobytes(),
                    operations=bytes([Operation.PUT]),
                    places=np.array([seq << 32], np.uint64).tobytes(),
                )
            )


async def examine(data: Path, journal: Journal, moment: float) -> list[str]:
    """Start on a state, look at everything, write, stop, check; return what is wrong."""
    catalog, shards = await start(data)
    found = look(catalog, shards)
    problems = problems_of(found, journal, moment)
    problems += snapshot_problems(data, journal, moment)
    write_more(catalog, shards)
    num_added = NUM_SHARDS * len(catalog.indexes)
    await stop(shards)
    problems += check_problems(data)
    catalog, shards = await start(data)
    again = look(catalog, shards)
    await stop(shards)
    num_items = sum(len(one.items) for one in found.values())
    if sum(len(one.items) for one in again.values()) != num_items + num_added:
        problems.append("what was written after the start is not there after another one")
    return problems


def check_problems(data: Path) -> list[str]:
    """Compare everything derived with the items."""
    return [
        f"{path.name}: {problem}"
        for path in data.glob("shard-*/index-*")
        for problem in check_index(path).problems
    ]


def snapshot_problems(data: Path, journal: Journal, moment: float) -> list[str]:
    """Every snapshot that is listed is whole, every acknowledged one is listed."""
    listed = {}
    folder = data_directory.snapshots_folder(data)
    for snapshot in list_snapshots(folder):
        verify(folder / snapshot.name, snapshot)
        listed[snapshot.name] = True
    return [
        f"snapshot {key[1]} is lost"
        for key in journal.attempts
        if not key[0] and listed.get(key[1]) not in journal.possible(key, moment)
    ]


# --- the tests


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


def test_what_a_killed_process_wrote_is_synced_before_it_is_believed(recording: Recording) -> None:
    """It may be in memory alone: what was read once, and answered again, must not go any more."""
    paths = list(recording.data.glob("shard-*/index-1/data.mdb"))
    assert len(paths) == NUM_SHARDS
    for path in paths:
        changes = [change for change in recording.second_run if change.path == str(path)]
        assert changes[0].kind == "sync"


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
