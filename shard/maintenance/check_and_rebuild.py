"""Verifies the data on disk: the work of `facetd check` and `facetd rebuild`.

It reads every item and compares its checksum, recounts every counter, rebuilds every segment from
the items and compares it array by array with the file, and looks up every facet number. It works on
the folder of a shard that is not running, and takes the folder's lock.

    truth      meta page, counters, log of groups, tombstones, every item
    derived    manifest, checksums of files, runs of records, places, and each array

A check changes nothing. A rebuild removes everything derived and builds it again from the items.

Cost: that of indexing all items again (10 µs each), and memory for two copies of a segment.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import msgspec
import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from common import data_directory
from common.data_directory import DataDirectoryError
from common.errors import InternalError, ServiceError
from common.process import logs
from common.process.control_character_escaping import printable
from common.process.unprinted_output import in_words, one_line_if_refused
from common.setting_conversion import SettingError
from common.setting_sources import Sources
from common.shard_settings import ShardSettings
from shard.partition.derived_files import DerivedFiles
from shard.partition.merge_and_flush import flush, work
from shard.partition.partition import Partition
from shard.partition.stored_index_entry import manifest_entry
from shard.partition.stored_item_batches import read_batches
from shard.partition.structures_per_configuration import Generation
from shard.segment.builder.segment_merge import merge_segments
from shard.segment.doc_records_and_places import DOCS, is_of_earlier_program, places_of, records_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from shard.segment.segment_file import DamagedSegment, verify_segment
from shard.storage.lmdb_codecs import number_key
from shard.storage.lmdb_environment import Environment, SubDatabase, Transaction
from shard.storage.manifest import (
    MANIFEST_FILE,
    IndexManifest,
    UnreadableManifest,
    read_manifest,
    read_shard_manifest,
)
from shard.storage.storage_errors import DamagedEnvironment, StorageFailure
from shard.storage.stored_documents import DocumentStore
from shard.storage.tombstones import read_tombstones
from shard.storage.write_group_log import State, read_groups, read_state, write_state

_FAILURES = (DamagedEnvironment, StorageFailure, ServiceError, OSError)
"""Errors of an index that cannot be checked, or rebuilt."""
_SUPERSET = "presence.kinds"
"""Arrays of this name, also those of nested fields, may keep what a merge has dropped."""


@dataclass(slots=True)
class Report:
    """Findings of a check.

    Attributes:
        problems: one line each; empty if all is well.
        notes: normal things that are worth knowing.
        num_items: live items that were checked.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    num_items: int = 0


def check_index(folder: Path, settings: ShardSettings | None = None) -> Report:
    """Check one index of a shard that is not running."""
    report = Report()
    try:
        environment = Environment.open(folder, (settings or ShardSettings()).map_bytes_max)
        try:
            truth = _check_truth(environment, report)
            _check_derived(folder, environment, truth, report)
        finally:
            environment.close()
    except _FAILURES as error:
        report.problems.append(_message(error))
    return report


@dataclass(frozen=True, slots=True)
class _Truth:
    """The state according to LMDB.

    Attributes:
        state: its counters.
        stored: the records that it has.
        records: the same, ascending.
        places: by position in `records`.
        live: records that are not deleted.
        damaged: records whose items cannot be read.
    """

    state: State
    stored: BitMap64
    records: NDArray[np.uint64]
    places: NDArray[np.uint64]
    live: BitMap64
    damaged: BitMap64


def _check_truth(environment: Environment, report: Report) -> _Truth:
    with environment.read() as txn:
        state = read_state(txn)
        groups = read_groups(txn)
        dead = BitMap64(read_tombstones(txn).tolist())
        for group in groups:
            dead.update(group.deleted.tolist())
        documents = DocumentStore(environment)
        damaged = BitMap64()
        records, places = array("Q"), array("Q")
        for item in documents.scan(txn, 0):
            if item.document is None:
                damaged.add(item.record)
            if item.document is None and item.record not in dead:  # else it was written again
                report.problems.append(
                    f"item of record {item.record} is damaged; load it again, and remove what is "
                    "left of it with facetd rebuild --drop-damaged"
                )
            if item.record >= state.next_record:
                report.problems.append(
                    f"record {item.record} is not below the counter {state.next_record}"
                )
            records.append(item.record)
            places.append(item.place)
        stored = BitMap64(records)
        live = stored - dead
        num_gone = len(dead - stored)
        if num_gone:
            report.notes.append(f"{num_gone} deleted items are gone already")
        if txn.count(SubDatabase.DOCUMENTS) != len(stored):
            report.problems.append("the tree of items does not have as many as it says")
    if len(live) != state.num_docs:
        report.problems.append(f"{len(live)} live items, but the counter says {state.num_docs}")
    last = groups[-1].seq if groups else state.seq_compacted
    if last > state.seq_max:
        report.problems.append(f"write group {last} is above the counter {state.seq_max}")
    report.num_items = len(live)
    numbers, by_number = np.frombuffer(records, np.uint64), np.frombuffer(places, np.uint64)
    order = np.argsort(numbers, kind="stable")  # keys of a damaged page may have any order
    return _Truth(state, stored, numbers[order], by_number[order], live, damaged)


def _check_derived(folder: Path, environment: Environment, truth: _Truth, report: Report) -> None:
    try:
        manifest = read_manifest(folder / MANIFEST_FILE, IndexManifest)
    except (UnreadableManifest, PermissionError, IsADirectoryError) as error:
        report.problems.append(f"{error}; it is built again at the next start")
        return
    if manifest is None:
        report.notes.append("no manifest: everything is built at the next start")
        return
    is_older = environment.last_txn_id() < manifest.txn_id
    if is_older or truth.state.next_record < manifest.next_record:
        report.problems.append("data.mdb is older than the manifest: restore both from one backup")
    if not _are_files_whole(folder, manifest, report):
        return
    # Without the texts, which are not compared: damaged ones would be set aside.
    loaded = DerivedFiles(folder).load(msgspec.structs.replace(manifest, texts=()))
    registry = FieldRegistry(loaded.fields)
    generation = Generation.make(manifest_entry(manifest), registry, loaded.dictionaries)
    covered = BitMap64()
    last_record = -1
    for segment in loaded.segments:
        records = records_of(segment)
        name = segment.path.name if segment.path is not None else ""
        if int(records[0]) <= last_record or (np.diff(records.astype(np.int64)) <= 0).any():
            report.problems.append(f"{name}: records do not ascend")
        last_record = int(records[-1])
        covered.update(records.tolist())
        _compare(segment, name, generation, environment, truth, report)
    missing = len(truth.live - truth.damaged - covered)
    if missing:
        report.notes.append(f"{missing} items are indexed at the next start")


def _are_files_whole(folder: Path, manifest: IndexManifest, report: Report) -> bool:
    pieces = [piece for one in manifest.dictionaries.values() for piece in one.pieces]
    is_whole = True
    for entry in (*manifest.segments, *pieces):
        try:
            verify_segment(folder / entry.file, entry.checksum)
        except DamagedSegment as error:
            report.problems.append(f"{error}; it is built again at the next start")
            is_whole = False
    for one in manifest.texts:
        try:
            verify_segment(folder / one.column.file, one.column.checksum)
        except DamagedSegment as error:
            report.problems.append(f"{error}; it is made again by the search that needs it")
    return is_whole


def _compare(
    segment: Segment,
    name: str,
    generation: Generation,
    environment: Environment,
    truth: _Truth,
    report: Report,
) -> None:
    """Build a segment again from its items and compare every array."""
    records = records_of(segment)
    own = BitMap64(records.tolist())
    num_gone = len(own - truth.stored)
    if num_gone:
        report.problems.append(f"{name}: {num_gone} of its items are not stored")
        return
    if own & truth.damaged:
        report.notes.append(f"{name}: not compared, for it has damaged items")
        return
    places = truth.places[np.searchsorted(truth.records, records)]
    if not np.array_equal(places_of(segment), places):
        report.problems.append(f"{name}: places differ from those of the items")
    lengths = {path: len(one) for path, one in generation.dictionaries.items()}
    expected = _build(own, generation, environment)
    names = set(segment) | set(expected)
    if is_of_earlier_program(segment):
        report.notes.append(f"{name}: an earlier program wrote it; its next merge makes it smaller")
        names = {one for one in names if not one.startswith(DOCS)}  # compared above, by value
    differing = sorted(one for one in names if not _are_equal(one, segment, expected))
    if differing:
        report.problems.append(f"{name}: differs from its items in {', '.join(differing)}")
    for path, one in generation.dictionaries.items():
        if len(one) != lengths[path]:
            report.problems.append(f"{name}: values of facet {path!r} have no number")


def _build(records: BitMap64, generation: Generation, environment: Environment) -> Segment:
    """Build the segment of some records, from batches: the items would take much more memory."""
    span = range(records.min(), records.max() + 1)
    others = BitMap64(span) - records
    batches = read_batches(environment, DocumentStore(environment), span, others, set())
    parts = [batch.build(generation) for batch in batches]
    return merge_segments(MergeState.without(parts, [None] * len(parts)))


def _are_equal(name: str, segment: Segment, expected: Segment) -> bool:
    if name.endswith(_SUPERSET):
        return True
    left, right = segment.get(name), expected.get(name)
    return (
        left is not None
        and right is not None
        and left.dtype == right.dtype
        and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    )


def drop_damaged(folder: Path, settings: ShardSettings | None = None) -> list[int]:
    """Remove the items of an index that cannot be read, dead ones included.

    Derived data still refer to them: `rebuild_index` must follow.

    Returns:
        Their records.

    Raises:
        DamagedEnvironment: data.mdb as a whole is damaged.
        StorageFailure, StorageFull: the disk refused it. In either case nothing was removed.
    """
    environment = Environment.open(folder, (settings or ShardSettings()).map_bytes_max)
    try:
        with environment.read() as txn:
            scanned = DocumentStore(environment).scan(txn, 0)
            damaged = [item.record for item in scanned if item.document is None]
        environment.change(lambda txn: _remove(txn, damaged))
    except InternalError as error:
        raise DamagedEnvironment(f"{environment.data_path}: {error.message}") from error
    finally:
        environment.close()
    return damaged


def _remove(txn: Transaction, damaged: Sequence[int]) -> None:
    """Remove items from the truth, and from the counters those that are live."""
    state = read_state(txn)
    dead = set(read_tombstones(txn).tolist())
    dead.update(*(group.deleted.tolist() for group in read_groups(txn)))
    for record in damaged:
        txn.delete(SubDatabase.DOCUMENTS, number_key(record))
    num_lost = len(set(damaged) - dead)
    write_state(txn, replace(state, num_docs=state.num_docs - num_lost))


def rebuild_index(folder: Path, number: int, settings: ShardSettings | None = None) -> None:
    """Remove everything derived of an index and build it from the items.

    Raises:
        DamagedEnvironment: data.mdb is damaged: nothing was removed.
    """
    settings = settings or ShardSettings()
    Environment.open(folder, settings.map_bytes_max).close()
    partition = Partition.open(folder, number, settings, is_rebuild=True)
    try:
        while work(partition, is_idle=True):
            pass
        flush(partition)
    finally:
        partition.close()


def _message(error: Exception) -> str:
    return in_words(error) if isinstance(error, OSError) else str(error)


@click.command(name="facetd check")
@click.option("--data-dir", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--rebuild", is_flag=True, help="Rebuild all derived data, then check.")
@click.option(
    "--drop-damaged", "drops", is_flag=True, help="Before that, remove items that are damaged."
)
def main(data_dir: Path, rebuild: bool, drops: bool) -> None:
    """Check all indexes of a data directory that is not in use."""
    logs.configure("check", level="warning")
    try:
        settings = ShardSettings.of(Sources.collect(os.environ))
    except SettingError as error:
        print(f"facetd: {error}", file=sys.stderr)
        sys.exit(2)
    num_problems = 0
    for folder in sorted(data_dir.glob("shard-*")):
        try:
            data_directory.acquire_lock(folder, wait_seconds=0)
        except DataDirectoryError as error:
            print(f"facetd: {error}", file=sys.stderr)
            sys.exit(2)
        try:
            manifest = read_shard_manifest(folder)
        except DataDirectoryError as error:
            print(printable(f"{folder.name}: PROBLEM {error}"))
            num_problems += 1
            continue
        for number in () if manifest is None else manifest.indexes:
            index_folder = folder / f"index-{number}"
            if not drops or _drop_damaged(index_folder, settings):
                num_problems += _check_one(index_folder, number, settings, rebuild or drops)
            else:
                num_problems += 1
    sys.exit(1 if num_problems else 0)


def _drop_damaged(folder: Path, settings: ShardSettings) -> bool:
    """Remove the damaged items of one index, print which; return whether that was possible."""
    where = f"{folder.parent.name}/{folder.name}"
    try:
        records = drop_damaged(folder, settings)
    except _FAILURES as error:
        print(printable(f"{where}: {_message(error)}"))
        return False
    if records:
        print(f"{where}: dropped {len(records)} damaged items, records {records}")
    return True


def _check_one(folder: Path, number: int, settings: ShardSettings, rebuild: bool) -> int:
    """Check one index, print what was found, return the number of problems."""
    where = f"{folder.parent.name}/{folder.name}"
    if rebuild:
        try:
            rebuild_index(folder, number, settings)
        except _FAILURES as error:
            print(printable(f"{where}: {_message(error)}"))
            return 1
    report = check_index(folder, settings)
    for problem in report.problems:
        print(printable(f"{where}: PROBLEM {problem}"))
    for note in report.notes:
        print(printable(f"{where}: {note}"))
    print(f"{where}: {report.num_items} items, {len(report.problems)} problems")
    return len(report.problems)


if __name__ == "__main__":
    with one_line_if_refused():
        main()
