"""Opens what a power loss has left, as the service does, and says what is wrong with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from common import data_directory
from common.protocol.messages import ApplyRequest, FacetRequest, SearchRequest, SearchResponse
from common.protocol.write_operations_and_outcomes import Operation
from common.value_kinds_and_facet_keys import facet_key
from coordinator.catalog.catalog import Catalog, Index
from coordinator.snapshots.snapshots_on_disk import list_snapshots, verify
from shard.indexes.catalog_follower import CatalogFollower
from shard.indexes.indexes import Indexes
from shard.indexes.open_index import OpenIndex
from shard.maintenance.check_and_rebuild import check_index
from shard.read import searcher
from tests.common.protocol.packed_model import unpack
from tests.faults.traced_run import NUM_SHARDS, SHARD_SETTINGS, Item, Journal


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
            FacetRequest(path, leaves_out_own=False, num_live_wanted=0)
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
