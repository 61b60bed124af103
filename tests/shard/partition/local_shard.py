"""A partition with its writer, as a shard process has them, but on one thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson

from common.protocol.messages import ApplyRequest, IndexEntry
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from common.shard_settings import ShardSettings
from shard.partition.merge_and_flush import flush, work
from shard.partition.opening_progress import OpeningProgress
from shard.partition.partition import Partition
from shard.partition.reindex import Reindex
from shard.partition.writer import Writer
from shard.segment.doc_records_and_places import places_of, records_of
from shard.segment.snapshot import Snapshot
from shard.storage.lmdb_codecs import number_key
from shard.storage.lmdb_environment import SubDatabase

SETTINGS = ShardSettings(map_bytes_max=1 << 30, flush_docs=40)


def index_entry(revision: int = 1, **configuration: Any) -> IndexEntry:
    return IndexEntry(1, "things", revision, configuration)


def no_failure(error: BaseException) -> None:
    raise AssertionError from error


def write_group(
    seq: int,
    operations: list[tuple[Operation, dict[str, Any] | str]],
    *,
    horizon: int = 0,
    versions: dict[int, bytes] | None = None,
) -> ApplyRequest:
    contents = [
        what.encode() if isinstance(what, str) else orjson.dumps(what) for _, what in operations
    ]
    return ApplyRequest(
        index=1,
        seq=seq,
        horizon=horizon,
        payload=b"".join(contents),
        lengths=np.array([len(one) for one in contents], np.uint32).tobytes(),
        operations=bytes(operation for operation, _ in operations),
        places=(np.arange(len(contents), dtype=np.uint64) + np.uint64(seq << 32)).tobytes(),
        versions=versions or {},
    )


def put_all(items: list[dict[str, Any]]) -> list[tuple[Operation, dict[str, Any] | str]]:
    return [(Operation.PUT, item) for item in items]


def live_items(snapshot: Snapshot) -> dict[str, tuple[dict[str, Any], int]]:
    """Return item and place of every live document by id; the states must agree everywhere."""
    found = {}
    for view in snapshot.views:
        deleted = view.deleted or ()
        records = records_of(view.segment)
        assert (np.diff(records.astype(np.int64)) > 0).all()
        ordinals = [doc for doc in range(view.segment.num_docs) if doc not in deleted]
        documents = snapshot.read_documents(records[ordinals])
        places = places_of(view.segment)[ordinals].tolist()
        for document, place in zip(documents, places, strict=True):
            item = orjson.loads(document)
            key = str(item.get("id", f"place {place}"))
            assert key not in found
            found[key] = (item, place)
    assert len(found) == snapshot.num_docs
    return found


def facet_counts(snapshot: Snapshot, path: str) -> dict[str, int]:
    """Count a single-valued facet over live documents through codes and dictionary."""
    dictionary = snapshot.dictionaries[path]
    field = snapshot.registry.number(path)
    counts: dict[str, int] = {}
    for view in snapshot.views:
        codes = view.segment.get(f"facet.{field}.codes")
        if codes is None:
            continue
        assert view.segment.get(f"facet.{field}.starts") is None
        for doc, code in enumerate(codes.tolist()):
            if code and doc not in (view.deleted or ()):
                (key,) = dictionary.values(code - 1, code)
                counts[key] = counts.get(key, 0) + 1
    return counts


class Shard:
    """A partition with its writer, as the process has them, but on one thread."""

    def __init__(self, folder: Path, entry: IndexEntry | None = None) -> None:
        self.folder = folder
        self.partition = Partition.create(folder, entry or index_entry(), SETTINGS)
        self.writer = Writer(self.partition, no_failure)
        self.seq = 0
        self.held: int | None = None
        """The oldest horizon that some cursor has; else the last group is all that is asked for."""

    def apply(self, *operations: tuple[Operation, dict[str, Any] | str]) -> list[Outcome]:
        self.seq += 1
        horizon = self.seq - 1 if self.held is None else self.held
        response = self.writer.apply(write_group(self.seq, list(operations), horizon=horizon))
        return [Outcome(one) for one in response.outcomes]

    def put(self, *items: dict[str, Any]) -> list[Outcome]:
        return self.apply(*put_all(list(items)))

    def close(self) -> None:
        self.writer.close()
        self.writer.compact()
        flush(self.partition)
        self.partition.close()

    def crash(self) -> None:
        self.writer.close()
        self.partition.environment.close()

    def open(self) -> OpeningProgress:
        """Open the folder; return what that took."""
        opening = OpeningProgress()
        self.partition = Partition.open(self.folder, 1, SETTINGS, opening=opening)
        self.writer = Writer(self.partition, no_failure)
        return opening

    def merge(self) -> None:
        self.writer.retire_open_segment()
        while work(self.partition, is_idle=True):
            pass

    def live(self) -> dict[str, dict[str, Any]]:
        return {key: item for key, (item, _) in live_items(self.partition.newest).items()}


def damage_item(shard: Shard, record: int) -> None:
    """Flip one bit of a stored item."""
    with shard.partition.environment.write() as txn:
        value = bytearray(txn.get(SubDatabase.DOCUMENTS, number_key(record)) or b"")
        value[-2] ^= 1
        txn.put(SubDatabase.DOCUMENTS, number_key(record), bytes(value))


def reconfigure(shard: Shard, revision: int, **configuration: Any) -> None:
    reindex = Reindex(shard.partition, index_entry(revision, **configuration))
    reindex.run()
    reindex.finish()
