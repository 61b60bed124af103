"""The catalog: which indexes exist, how they are configured, what aliases and keys there are.

    DATA/catalog.json   {"checksum": "…", "state": {"format": 1, "revision": 17, "next_number": 4,
                          "indexes": [{"number": 3, "name": "films", "revision": 16,
                                       "configuration": {…as posted…}}],
                          "aliases": {"movies": "films"},
                          "sections": {"keys": {…}}}}

One small file, replaced atomically at every change: a configuration is in force on all shards or on
none, because the shards take it from here, at the handshake and after every change. `revision`
grows with every change of the catalog; that of an index is greater than the catalog's was when its
configuration came, so it is never used twice, not even by a later index of the same name. Folders
on disk are named by `number`, which is never used again either.

The state is an immutable value: whoever reads it sees one moment. Changes are functions from state
to state, applied one after the other (`Catalog.change`). A changed configuration is first durable,
then told to the shards, and only then *active*, that is, seen by requests: a search never names a
revision that a shard has not taken.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import xxhash
from msgspec import Struct

from common import data_directory
from common.configuration import IndexConfiguration, parse_configuration
from common.data_directory import DataDirectoryError, full_disk_told, write_atomically
from common.errors import NotFound
from common.protocol.messages import CatalogUpdate, IndexEntry, SnapshotSource

CATALOG_FORMAT: Final = 1


class StoredIndex(Struct, frozen=True):
    """One index as the file has it."""

    number: int
    name: str
    revision: int
    configuration: dict[str, Any]
    source: SnapshotSource | None = None
    """Of what a shard that lacks the index makes it; until all have it (`Ingest.restore`)."""

    @property
    def entry(self) -> IndexEntry:
        """The index as the shards are told of it."""
        return IndexEntry(self.number, self.name, self.revision, self.configuration, self.source)


class Restored(NamedTuple):
    """An index that is to be made of one in a snapshot."""

    name: str
    """That it gets."""
    former_name: str
    configuration: dict[str, Any]
    source: SnapshotSource


class CatalogState(Struct, frozen=True):
    """The content of the catalog at one moment."""

    format: int = CATALOG_FORMAT
    revision: int = 0
    next_number: int = 1
    indexes: tuple[StoredIndex, ...] = ()
    aliases: dict[str, str] = {}
    """Alias to index name."""
    sections: dict[str, dict[str, Any]] = {}
    """What other parts keep here durably, by name; `keys` is that of
    `coordinator.http.security`."""

    def new_entry(self, name: str, configuration: dict[str, Any]) -> StoredIndex:
        """Return the index as it will be with a new configuration (`with_index` puts it in)."""
        known = next((index for index in self.indexes if index.name == name), None)
        number = self.next_number if known is None else known.number
        return StoredIndex(number, name, self.revision + 1, configuration)

    def with_index(self, index: StoredIndex) -> CatalogState:
        """Return the state in which an index is new or replaces the one of its number."""
        indexes = tuple(index if one.number == index.number else one for one in self.indexes)
        return msgspec.structs.replace(
            self,
            revision=max(self.revision + 1, index.revision),
            next_number=max(self.next_number, index.number + 1),
            indexes=indexes if index in indexes else (*indexes, index),
        )

    def without_sources(self) -> CatalogState:
        """Return the state in which all shards have what was restored from snapshots."""
        return msgspec.structs.replace(
            self,
            revision=self.revision + 1,
            indexes=tuple(msgspec.structs.replace(one, source=None) for one in self.indexes),
        )

    def without_index(self, name: str) -> CatalogState:
        """Return the state in which an index, and every alias of it, is gone."""
        return msgspec.structs.replace(
            self,
            revision=self.revision + 1,
            indexes=tuple(index for index in self.indexes if index.name != name),
            aliases={alias: target for alias, target in self.aliases.items() if target != name},
        )

    def with_aliases(self, changes: Mapping[str, str | None]) -> CatalogState:
        """Return the state with aliases set (to a name) or removed (None), all at once."""
        aliases = {**self.aliases, **changes}
        return msgspec.structs.replace(
            self,
            revision=self.revision + 1,
            aliases={alias: target for alias, target in aliases.items() if target is not None},
        )

    def with_section(self, name: str, content: dict[str, Any]) -> CatalogState:
        """Return the state in which a section has a new content."""
        return msgspec.structs.replace(
            self, revision=self.revision + 1, sections={**self.sections, name: content}
        )


@dataclass(frozen=True, slots=True)
class Index:
    """One index as requests see it.

    Attributes:
        number: names it on disk and in messages.
        name: what clients call it.
        revision: of its configuration.
        document: the configuration as posted.
        configuration: the same, parsed.
    """

    number: int
    name: str
    revision: int
    document: dict[str, Any]
    configuration: IndexConfiguration


class Catalog:
    """The catalog of one data directory.

    Attributes:
        state: what is durable now, and what shards are told.
        indexes: what requests see, by name, with parsed configurations.
        aliases: what requests see, alias to name.
        num_shards: what the data are divided over.
    """

    def __init__(self, data: Path, num_shards: int, state: CatalogState) -> None:
        self._path = data_directory.catalog_path(data)
        self._lock = asyncio.Lock()
        self.num_shards = num_shards
        self.state = state
        self.indexes: dict[str, Index] = {}
        self.aliases: dict[str, str] = {}
        self._listeners: list[Callable[[], None]] = []
        self._waiting: set[asyncio.Future[None]] = set()
        self.activate()

    @classmethod
    def open(cls, data: Path, num_shards: int) -> Catalog:
        """Open the catalog of a data directory that this process owns; make it if it is new.

        Raises:
            DataDirectoryError: the directory is for another number of shards, was made by a newer
                program, or is damaged; the message says what to do.
        """
        manifest = data_directory.check_manifest(data, num_shards)
        path = data_directory.catalog_path(data)
        try:
            state = read_state(path)
        except FileNotFoundError:
            if manifest is not None:
                raise DataDirectoryError(
                    f"{path} is missing, though {data} has data; restore it from a backup"
                ) from None
            state = CatalogState()
            write_atomically(path, _encode(state), mode=0o600)
        if manifest is None:
            # Last, so that a directory with a manifest is a complete one.
            data_directory.write_manifest(data, num_shards, f"facetd {program_version()}")
        return cls(data, num_shards, state)

    def index(self, name: str) -> Index:
        """Return the index of a name or alias.

        Raises:
            NotFound: `index_not_found`; says how to make it.
        """
        index = self.indexes.get(name)
        if index is None:
            index = self.indexes.get(self.aliases.get(name, ""))
        if index is None:
            raise NotFound(
                f"there is no index {name!r}; POST a configuration (at least {{}}) to "
                "/{index}/configuration to create it",
                code="index_not_found",
            )
        return index

    def section(self, name: str) -> dict[str, Any]:
        """Return what another part keeps here; do not modify it."""
        return self.state.sections.get(name, {})

    async def change(
        self, function: Callable[[CatalogState], CatalogState], *, is_active: bool = True
    ) -> CatalogState:
        """Apply a change durably; changes run one after the other.

        Args:
            function: returns the new state; may raise to leave everything as it is.
            is_active: whether requests see the change of aliases and sections at once; a change of
                indexes is seen when `activate` was called, after the shards were told.

        Returns:
            The state that holds now.
        """
        async with self._lock:
            state = function(self.state)
            # Shielded: between the rename on disk and the assignment here nobody may cancel.
            writing = asyncio.ensure_future(
                asyncio.to_thread(write_atomically, self._path, _encode(state), mode=0o600)
            )
            try:
                with full_disk_told("nothing was changed"):
                    await asyncio.shield(writing)
            finally:
                if not writing.done():
                    await writing
                if writing.exception() is None:
                    self.state = state
                    if is_active:
                        self._activate_names()
            return state

    def activate(self) -> None:
        """Let requests see the state; configurations that did not change are not parsed again."""
        former = self.indexes
        self.indexes = {}
        for stored in self.state.indexes:
            index = former.get(stored.name)
            if index is None or index.revision != stored.revision:
                index = Index(
                    stored.number,
                    stored.name,
                    stored.revision,
                    stored.configuration,
                    parse_configuration(stored.configuration)[0],
                )
            self.indexes[stored.name] = index
        self._activate_names()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def switched(self, index: Index, seconds: float) -> None:
        """Return when an index has another configuration than this one, or after some time."""
        if self.indexes.get(index.name) is index:
            await self.next_change(seconds)

    async def next_change(self, seconds: float) -> None:
        """Return when requests see other indexes or configurations, or after some time."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait((waiting,), timeout=seconds)
        finally:
            self._waiting.discard(waiting)

    def _activate_names(self) -> None:
        """Let requests see aliases and sections."""
        self.aliases = dict(self.state.aliases)
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function after every change that requests see (to drop caches)."""
        self._listeners.append(listener)

    def content(self) -> bytes:
        """Return the file of what is durable now."""
        return _encode(self.state)

    def message(self) -> CatalogUpdate:
        """Return the catalog as the shards get it."""
        entries = tuple(index.entry for index in self.state.indexes)
        return CatalogUpdate(self.state.revision, entries)


@functools.cache  # files are looked through for it
def program_version() -> str:
    """Return the version of the installed program."""
    try:
        return version("facetd")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "unknown"


def _encode(state: CatalogState) -> bytes:
    """Return the file of a state."""
    content = msgspec.json.encode(state)
    checksum = xxhash.xxh3_64_hexdigest(content)
    return b'{"checksum":"%b","state":%b}\n' % (checksum.encode(), content)


class _CatalogFile(Struct):
    """The file's two parts."""

    checksum: str
    state: msgspec.Raw


def read_state(path: Path) -> CatalogState:
    """Read a catalog's file.

    Raises:
        DataDirectoryError: it is damaged or newer.
        FileNotFoundError: there is none.
    """
    content = path.read_bytes()
    try:
        file = msgspec.json.decode(content, type=_CatalogFile)
        if xxhash.xxh3_64_hexdigest(bytes(file.state)) != file.checksum:
            raise DataDirectoryError(
                f"{path} is damaged (its checksum differs); restore it from a backup"
            )
        state_format = msgspec.json.decode(file.state)["format"]
        if state_format > CATALOG_FORMAT:
            raise DataDirectoryError(
                f"{path} has format {state_format}, this program reads up to {CATALOG_FORMAT}; "
                "install a newer version"
            )
        return msgspec.json.decode(file.state, type=CatalogState)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise DataDirectoryError(
            f"{path} is damaged ({error}); restore it from a backup"
        ) from error
