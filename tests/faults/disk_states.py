"""Enumerates the states that a disk may be in after a power loss, by the rules of the system.

    changes (disk_trace)  ─▶  History  ─▶  state(cut, …)  ─▶  a folder that the real code opens

As in ALICE (Pillai et al., OSDI 2014): a state is a moment, and a choice of what of the changes
before it had reached the disk. Certain is only what was synced:

- the sync of a file covers the writes and truncations of it that had returned before the sync
  began, with the size that they give the file; it covers nothing of other files
- the sync of a folder covers the names that were made, changed or removed in it
- a write through a descriptor with O_DSYNC covers itself when it has returned
- a rename, or an exchange, is there with both its names or with none

Everything else may be there or not, in any order. A write may be there in part: any of its sectors
(512 bytes, or 4 KiB), the others as they were, or zero where the file was shorter. A file may have
got its new size without its bytes. With `is_journaled` names behave as on ext4, XFS and btrfs: they
come in their order, and any sync makes all names before it durable; without, in no order at all, as
POSIX allows.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.disk_trace import Change

SECTORS: Final = (512, 4096)
NEVER: Final = 1 << 60


@dataclass(eq=False, slots=True)
class _Node:
    """A file or a folder, whatever its names are."""

    is_folder: bool


@dataclass(slots=True)
class _Event:
    """A change with the nodes that it concerns.

    Attributes:
        node: of a write, truncation or sync: which.
        names: of a change of names: (folder, name, what it means now or None).
        synced_at: position in the log from which it is durable.
        journaled_at: the same for names, if any sync makes them so.
    """

    change: Change
    node: _Node | None = None
    names: tuple[tuple[_Node, str, _Node | None], ...] = ()
    synced_at: int = NEVER
    journaled_at: int = NEVER


@dataclass(frozen=True, slots=True)
class Chance:
    """How the undecided changes of a state are decided.

    Attributes:
        kept: probability that a change that was not synced is there all the same.
        torn: probability that a write which is there is so only in part.
        is_journaled: whether names keep their order (see the module).
    """

    kept: float
    torn: float = 0.0
    is_journaled: bool = False


@dataclass
class Tree:
    """A state of the folder: path below it → content, None for folders."""

    entries: dict[str, bytes | None] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Make it real in a folder that is not there, or not at all if the state has none."""
        for path, content in sorted(self.entries.items()):
            place = folder / path if path else folder
            if content is None:
                place.mkdir()
            else:
                place.write_bytes(content)

    @classmethod
    def read(cls, folder: Path, ignored: Sequence[str]) -> Tree:
        """Return what a real folder has."""
        entries: dict[str, bytes | None] = {}
        if folder.is_dir():
            entries[""] = None
        for path in folder.rglob("*"):
            if path.name not in ignored:
                content = None if path.is_dir() else path.read_bytes()
                entries[str(path.relative_to(folder))] = content
        return cls(entries)


class History:
    """The changes of one run, resolved to files.

    Args:
        folder: all changes lie below it; it may be made by the first of them.
        changes: in the order of their beginning.
        before: what was there, and on disk, before the first change.

    Attributes:
        events: what may be there or not; syncs are not among them.
        moments: positions in the log at which something may be cut off.
    """

    def __init__(self, folder: Path, changes: Sequence[Change], before: Tree | None = None) -> None:
        self._folder = str(folder)
        self._top = _Node(is_folder=True)  # the folder's parent
        self._names: dict[_Node, dict[str, _Node]] = {self._top: {}}
        self._contents: dict[_Node, bytes] = {}
        for path, content in sorted((before or Tree()).entries.items()):
            parent, name = self._place(str(folder / path))
            node = self._names[parent][name] = self._new(is_folder=content is None)
            if content is not None:
                self._contents[node] = content
        self._names_before = {node: dict(names) for node, names in self._names.items()}
        self.events: list[_Event] = []
        syncs: list[_Event] = []
        for change in changes:
            for event in self._resolve(change):
                (syncs if change.kind == "sync" else self.events).append(event)
        self._find_syncs(syncs)
        self._clock = sorted(
            point
            for event in (*self.events, *syncs)
            for change in (event.change,)
            for point in ((change.begin, change.started), (change.end, change.ended))
        )
        self.moments = sorted({position for position, _ in self._clock})

    # --- from paths to nodes

    def _new(self, *, is_folder: bool) -> _Node:
        node = _Node(is_folder)
        if is_folder:
            self._names[node] = {}
        return node

    def _place(self, path: str) -> tuple[_Node, str]:
        """Return the folder that has a path, and its name there."""
        if path == self._folder:
            return self._top, os.path.basename(path)
        folder, name = self._place(os.path.dirname(path))
        return self._names[folder][name], os.path.basename(path)

    def _find(self, path: str) -> _Node | None:
        folder, name = self._place(path)
        return self._names[folder].get(name)

    def _resolve(self, change: Change) -> list[_Event]:
        match change.kind:
            case "create":
                if self._find(change.path) is not None:
                    return []
                return [self._rename(change, (change.path, self._new(is_folder=False)))]
            case "mkdir":
                return [self._rename(change, (change.path, self._new(is_folder=True)))]
            case "unlink":
                return [self._rename(change, (change.path, None))]
            case "link":
                return [self._rename(change, (change.target, self._find(change.path)))]
            case "rename":
                node = self._find(change.path)
                return [self._rename(change, (change.path, None), (change.target, node))]
            case "exchange":
                one, other = self._find(change.path), self._find(change.target)
                return [self._rename(change, (change.path, other), (change.target, one))]
            case "sync" if change.path == os.path.dirname(self._folder):
                return [_Event(change, self._top)]
            case _:
                node = self._find(change.path)
                assert node is not None, change
                synced_at = change.end if change.is_synced else NEVER
                return [_Event(change, node, synced_at=synced_at)]

    def _rename(self, change: Change, *names: tuple[str, _Node | None]) -> _Event:
        resolved = []
        for path, node in names:
            folder, name = self._place(path)
            resolved.append((folder, name, node))
        for folder, name, node in resolved:
            if node is None:
                self._names[folder].pop(name, None)
            else:
                self._names[folder][name] = node
        return _Event(change, names=tuple(resolved))

    def _find_syncs(self, syncs: Sequence[_Event]) -> None:
        """Note for each event from when on it is durable."""
        by_node: dict[_Node, list[Change]] = {}
        for sync in syncs:
            assert sync.node is not None
            by_node.setdefault(sync.node, []).append(sync.change)
        for event in self.events:
            nodes = {folder for folder, _, _ in event.names}
            if event.node is not None:
                nodes.add(event.node)
            own = [one for node in nodes for one in by_node.get(node, ())]
            event.synced_at = min(event.synced_at, _first_after(own, event.change))
            event.journaled_at = _first_after([sync.change for sync in syncs], event.change)

    # --- states

    def time_after(self, cut: int) -> float:
        """Return the wall clock at the first event after a position of the log.

        Nothing changed between the two: what was acknowledged until then was so in the state.
        """
        return min((moment for position, moment in self._clock if position > cut), default=1e99)

    def state(self, cut: int, chance: Chance, generator: random.Random) -> Tree:
        """Return a state that the disk may be in if the power fails after a position of the log."""
        events = [event for event in self.events if event.change.begin <= cut]
        names = [event for event in events if event.names]
        contents = {node: bytearray(content) for node, content in self._contents.items()}
        for event in events:
            if event.node is not None:
                content = contents.setdefault(event.node, bytearray())
                if event.synced_at <= cut:
                    _apply(content, event.change)
                elif generator.random() < chance.kept:
                    _apply_in_part(content, event.change, chance, generator)
        return self._tree(self._kept_names(names, cut, chance, generator), contents)

    def final(self) -> Tree:
        """Return the state in which everything is there: what a running system sees."""
        return self.state(NEVER, Chance(kept=1.0), random.Random(0))

    @staticmethod
    def _kept_names(
        events: Sequence[_Event], cut: int, chance: Chance, generator: random.Random
    ) -> list[_Event]:
        if not chance.is_journaled:
            return [
                event
                for event in events
                if event.synced_at <= cut or generator.random() < chance.kept
            ]
        durable = [i for i, event in enumerate(events) if event.journaled_at <= cut]
        num_kept = durable[-1] + 1 if durable else 0
        while num_kept < len(events) and generator.random() < chance.kept:
            num_kept += 1
        return list(events[:num_kept])

    def _tree(self, names: Sequence[_Event], contents: dict[_Node, bytearray]) -> Tree:
        folders = {node: dict(inner) for node, inner in self._names_before.items()}
        top = os.path.basename(self._folder)
        for event in names:
            for folder, name, node in event.names:
                entries = folders.setdefault(folder, {})
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
        tree = Tree()

        def add(node: _Node, path: str) -> None:
            tree.entries[path] = None if node.is_folder else bytes(contents.get(node, b""))
            for name, inner in folders.get(node, {}).items():
                add(inner, f"{path}/{name}" if path else name)

        if top in folders.get(self._top, {}):
            add(folders[self._top][top], "")
        return tree


def _first_after(syncs: Sequence[Change], change: Change) -> int:
    """Return when the first sync that covers a change was done."""
    return min((sync.end for sync in syncs if sync.begin > change.end), default=NEVER)


def _apply(content: bytearray, change: Change) -> None:
    """Do a write or a truncation."""
    if change.kind == "truncate":
        _resize(content, change.offset)
        return
    end = change.offset + len(change.data)
    if len(content) < end:
        _resize(content, end)
    content[change.offset : end] = change.data


def _apply_in_part(
    content: bytearray, change: Change, chance: Chance, generator: random.Random
) -> None:
    """Do a write that was not synced: whole, or only some of its sectors."""
    if change.kind == "truncate" or generator.random() >= chance.torn:
        _apply(content, change)
        return
    sector = generator.choice(SECTORS)
    end = change.offset + len(change.data)
    if generator.random() < 0.5 and len(content) < end:
        _resize(content, end)  # the size has come, the bytes have not
    part_kept = generator.random()
    start = change.offset
    while start < end:
        stop = min(end, (start // sector + 1) * sector)
        if generator.random() < part_kept:
            if len(content) < stop:
                _resize(content, stop)
            content[start:stop] = change.data[start - change.offset : stop - change.offset]
        start = stop


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))
