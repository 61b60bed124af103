"""The catalog: the indexes with their configurations, the aliases and the API keys.

    DATA/catalog.json   {"checksum": "…", "state": {"format": 1, "revision": 17, "next_number": 4,
                          "indexes": [{"number": 3, "name": "films", "revision": 16,
                                       "configuration": {…as posted…}}],
                          "aliases": {"movies": "films"},
                          "sections": {"keys": {…}}}}

One small file, replaced atomically on every change. The shards take their configurations from it,
at the handshake and after every change, so a configuration is in force on all shards or on none.
`revision` grows with every change of the catalog. An index's revision is greater than the catalog's
was when its configuration arrived, so no revision is ever reused, not even by a later index of the
same name. Folders on disk are named by `number`, which is never reused either.

The state is an immutable value: a reader sees one moment. Changes are functions from state to
state, applied one after another (`Catalog.change`). A changed configuration becomes durable first,
then reaches the shards, and only then becomes *active*, that is, visible to requests: a search
never names a revision that a shard has not applied.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import compress, count
from operator import is_not
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import xxhash
from msgspec import Struct

from common import data_directory
from common.configuration import IndexConfiguration
from common.configuration_parser import parse_stored
from common.data_directory import DataDirectoryError, explaining_full_disk, write_atomically
from common.errors import NotFound
from common.protocol.messages import CatalogUpdate, IndexEntry, SnapshotSource

CATALOG_FORMAT: Final = 1


class StoredIndex(Struct, frozen=True):
    """One index as stored in the file."""

    number: int
    name: str
    revision: int
    configuration: dict[str, Any]
    source: SnapshotSource | None = None
    """Snapshot from which a shard that lacks the index rebuilds it; kept until all shards have it
    (`IndexAdministration.restore`)."""

    @property
    def entry(self) -> IndexEntry:
        """The index as sent to the shards."""
        return IndexEntry(self.number, self.name, self.revision, self.configuration, self.source)


class Restored(NamedTuple):
    """An index to be created from a snapshot."""

    name: str
    """Its new name."""
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
    """What other modules store here durably, by name; `keys` belongs to
    `coordinator.http.security`."""

    def new_entry(self, name: str, configuration: dict[str, Any]) -> StoredIndex:
        """Return the index as it will be with a new configuration (`with_index` adds it)."""
        known = next((index for index in self.indexes if index.name == name), None)
        number = self.next_number if known is None else known.number
        return StoredIndex(number, name, self.revision + 1, configuration)

    def has(self, number: int) -> bool:
        """Return whether there is an index of a number."""
        return any(one.number == number for one in self.indexes)

    def with_index(self, index: StoredIndex) -> CatalogState:
        """Return the state with an index added, or replaced if its number exists."""
        indexes: tuple[StoredIndex, ...]
        if index.number >= self.next_number or not self.has(index.number):
            indexes = (*self.indexes, index)
        else:
            indexes = tuple(index if one.number == index.number else one for one in self.indexes)
        return msgspec.structs.replace(
            self,
            revision=max(self.revision + 1, index.revision),
            next_number=max(self.next_number, index.number + 1),
            indexes=indexes,
        )

    def without_sources(self) -> CatalogState:
        """Return the state after all shards have the indexes restored from snapshots."""
        return msgspec.structs.replace(
            self,
            revision=self.revision + 1,
            indexes=tuple(msgspec.structs.replace(one, source=None) for one in self.indexes),
        )

    def without_index(self, name: str) -> CatalogState:
        """Return the state without an index and its aliases."""
        return msgspec.structs.replace(
            self,
            revision=self.revision + 1,
            indexes=tuple(index for index in self.indexes if index.name != name),
            aliases={alias: target for alias, target in self.aliases.items() if target != name},
        )

    def replaced(self, name: str, new_name: str) -> CatalogState:
        """Return the state with an index under the name of another one, which is gone.

        The aliases of both lead to the index that stays.
        """
        aliases = {
            alias: new_name if target == name else target for alias, target in self.aliases.items()
        }
        state = self.without_index(new_name).renamed(name, new_name, keeps_alias=False)
        return msgspec.structs.replace(state, aliases=aliases)

    def renamed(self, name: str, new_name: str, *, keeps_alias: bool) -> CatalogState:
        """Return the state with an index under another name; its aliases go with it.

        Args:
            name: of the index.
            new_name: neither an index nor an alias.
            keeps_alias: whether the former name becomes an alias.
        """
        aliases = {
            alias: new_name if target == name else target for alias, target in self.aliases.items()
        }
        return msgspec.structs.replace(
            self,
            revision=self.revision + 1,
            indexes=tuple(
                msgspec.structs.replace(one, name=new_name) if one.name == name else one
                for one in self.indexes
            ),
            aliases=aliases | {name: new_name} if keeps_alias else aliases,
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
        """Return the state with new content of a section."""
        return msgspec.structs.replace(
            self, revision=self.revision + 1, sections={**self.sections, name: content}
        )


class Difference(NamedTuple):
    """What distinguishes the indexes of a state from those of a former one."""

    changed: Sequence[StoredIndex]
    """New ones, and those that are not the same object."""
    gone: Collection[int]
    """Numbers of those that are there no more."""


def difference(former: Sequence[StoredIndex], indexes: Sequence[StoredIndex]) -> Difference:
    """Compare the indexes of two states, of thousands of which one or two have changed.

    Cost: 20 ns an index where some were replaced in their places or added at the end; else 150.
    """
    places = _replaced(former, indexes)
    if len(former) <= len(indexes) and all(
        former[place].number == indexes[place].number for place in places
    ):
        return Difference([indexes[i] for i in places] + [*indexes[len(former) :]], ())
    known = {index.number: index for index in former}
    changed = [one for one in indexes if known.pop(one.number, None) is not one]
    return Difference(changed, known.keys())


def _replaced(former: Sequence[StoredIndex], indexes: Sequence[StoredIndex]) -> list[int]:
    """Return the places that both have, and that have different indexes."""
    return list(compress(count(), map(is_not, former, indexes)))


Propose = Callable[[Callable[[CatalogState], CatalogState]], Awaitable[CatalogState]]


class Index:
    """One index as requests see it; never changes.

    Args:
        number: identifies it on disk and in messages.
        name: as clients call it.
        revision: of its configuration.
        document: the configuration as posted.
        configuration: the same, parsed; None: it is parsed when it is first needed. (Parsing takes
            0.2 ms and 3 KB, and of thousands of indexes few are in use.)
    """

    __slots__ = ("_configuration", "document", "name", "number", "revision")

    def __init__(
        self,
        number: int,
        name: str,
        revision: int,
        document: dict[str, Any],
        configuration: IndexConfiguration | None = None,
    ) -> None:
        self.number: Final = number
        self.name: Final = name
        self.revision: Final = revision
        self.document: Final = document
        self._configuration = configuration

    @property
    def configuration(self) -> IndexConfiguration:
        """The parsed configuration."""
        parsed = self._configuration
        if parsed is None:
            parsed = self._configuration = parse_stored(self.document)
        return parsed

    @property
    def facets(self) -> list[str]:
        """The names of its facets; parses nothing."""
        return sorted(self.document.get("aggregations") or ())


class Catalog:
    """The catalog of one data directory.

    Attributes:
        state: the durable state, as sent to the shards.
        indexes: as requests see them, by name.
        aliases: as requests see them, alias to name.
        num_shards: number of shards that the data is spread over.
        propose: carries out the changes of `change` where several hosts share one catalog.
        on_stored: called after every change of the durable state or of what requests see.
    """

    def __init__(self, data: Path, num_shards: int, state: CatalogState) -> None:
        self._path = data_directory.catalog_path(data)
        self._lock = asyncio.Lock()
        self._encoder = _Encoder()
        self.num_shards = num_shards
        self.state = state
        self.indexes: dict[str, Index] = {}
        self._active: tuple[StoredIndex, ...] = ()
        self.aliases: dict[str, str] = {}
        self._listeners: list[Callable[[], None]] = []
        self._waiting: set[asyncio.Future[None]] = set()
        self.propose: Propose | None = None
        self.on_stored: Callable[[], None] | None = None
        self.activate()

    @classmethod
    def open(cls, data: Path, num_shards: int) -> Catalog:
        """Open the catalog of a data directory that this process owns; create it if it is new.

        Raises:
            DataDirectoryError: the directory belongs to a different number of shards, was written
                by a newer program, or is damaged; the message says what to do.
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
            write_atomically(path, _Encoder().encode(state), mode=0o600)
        if manifest is None or manifest.min_reader < data_directory.MIN_READER:
            # Written last, so that a directory with a manifest is complete. In one of an older
            # format this program writes what older ones cannot read, so they must refuse it.
            data_directory.write_manifest(data, num_shards, f"facetd {program_version()}")
        return cls(data, num_shards, state)

    def index(self, name: str) -> Index:
        """Return the index with a name or alias.

        Raises:
            NotFound: `index_not_found`; says how to create it.
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

    def present(self, index: Index) -> Index | None:
        """Return what requests see of an index now, whatever its name and configuration."""
        found = self.indexes.get(index.name)
        if found is not None and found.number == index.number:
            return found
        # It may have been renamed.
        return next((one for one in self.indexes.values() if one.number == index.number), None)

    def section(self, name: str) -> dict[str, Any]:
        """Return the content of a section; do not modify it."""
        return self.state.sections.get(name, {})

    async def change(
        self, function: Callable[[CatalogState], CatalogState], *, is_active: bool = True
    ) -> CatalogState:
        """Apply a change durably; changes run one after another.

        Args:
            function: returns the new state; may raise to leave everything as it is.
            is_active: whether requests see changed aliases and sections at once; changed indexes
                become visible with `activate`, after the shards have them.

        Returns:
            The new state.
        """
        if self.propose is not None:
            return await self.propose(function)
        return await self.change_here(function, is_active=is_active)

    async def change_here(
        self, function: Callable[[CatalogState], CatalogState], *, is_active: bool = True
    ) -> CatalogState:
        """Apply a change to this host's catalog; see `change`."""
        async with self._lock:
            state = function(self.state)
            # Shielded: no cancellation between the rename on disk and the assignment here.
            content = self._encoder.encode(state)
            writing = asyncio.ensure_future(
                asyncio.to_thread(write_atomically, self._path, content, mode=0o600)
            )
            try:
                with explaining_full_disk("nothing was changed"):
                    await asyncio.shield(writing)
            finally:
                if not writing.done():
                    await writing
                if writing.exception() is None:
                    self.state = state
                    if is_active:
                        self._activate_names()
                    elif self.on_stored is not None:
                        self.on_stored()
            return state

    def activate(self) -> None:
        """Make the state visible to requests."""
        former, stored = self.indexes, self.state.indexes
        changed, gone = difference(self._active, stored)
        indexes = former | _seen(changed, former)
        if gone or len(indexes) != len(stored):  # one was removed or renamed
            indexes = _seen(stored, former)
        self.indexes = indexes
        self._active = stored
        self._activate_names()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def switched(self, index: Index, seconds: float) -> None:
        """Return once an index has a different configuration than this one, or after some time."""
        if self.indexes.get(index.name) is index:
            await self.next_change(seconds)

    async def next_change(self, seconds: float) -> None:
        """Return once requests see other indexes or configurations, or after some time."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait((waiting,), timeout=seconds)
        finally:
            self._waiting.discard(waiting)

    def _activate_names(self) -> None:
        """Make aliases and sections visible to requests."""
        self.aliases = dict(self.state.aliases)
        for listener in self._listeners:
            listener()
        if self.on_stored is not None:
            self.on_stored()

    @property
    def is_active(self) -> bool:
        """Whether requests see the indexes of the durable state."""
        seen = self.indexes
        return self._active is self.state.indexes or (
            len(seen) == len(self.state.indexes)
            and all(
                one.name in seen
                and (seen[one.name].number, seen[one.name].revision) == (one.number, one.revision)
                for one in self.state.indexes
            )
        )

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function after every change that requests see (to drop caches)."""
        self._listeners.append(listener)

    def content(self) -> bytes:
        """Return the content of the file for the durable state."""
        return bytes(_Encoder().encode(self.state))

    def message(self, since: CatalogState | None = None) -> CatalogUpdate:
        """Return the catalog as sent to the shards.

        Args:
            since: the state that they have; None: all of it is sent.
        """
        state = self.state
        if since is None:
            return CatalogUpdate(state.revision, tuple(index.entry for index in state.indexes))
        changed, gone = difference(since.indexes, state.indexes)
        return CatalogUpdate(
            state.revision, tuple(one.entry for one in changed), since.revision, tuple(gone)
        )


def _seen(stored: Iterable[StoredIndex], former: Mapping[str, Index]) -> dict[str, Index]:
    """Return indexes as requests see them; those whose configuration has not changed, as before."""
    indexes = {}
    for one in stored:
        index = former.get(one.name)
        if index is None or (index.number, index.revision) != (one.number, one.revision):
            index = Index(one.number, one.name, one.revision, one.configuration)
        indexes[one.name] = index
    return indexes


@functools.cache  # the lookup searches files
def program_version() -> str:
    """Return the version of the installed program."""
    try:
        return version("facetd")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"


_CHECKSUM_AT: Final = len('{"checksum":"')
_HEAD: Final = b'{"checksum":"%b","state":' % bytes(16)
_NO_INDEXES: Final = b'"indexes":[]'
_END: Final = b"}\n"


class _Encoder:
    """Encodes states. A change concerns one index of possibly thousands: only that is encoded.

    What was encoded last is kept, and extended in its place where indexes were only added: with
    10,000 of them, copying three megabytes costs more than all else of a change.
    """

    def __init__(self) -> None:
        self._indexes: tuple[StoredIndex, ...] = ()
        self._pieces: list[bytes] = []
        self._content = bytearray()
        self._num_head = 0
        self._num_tail = 0

    def encode(self, state: CatalogState) -> bytearray:
        """Return the content of the file for a state; valid until the next call."""
        rest = msgspec.json.encode(msgspec.structs.replace(state, indexes=()))
        before, _, after = rest.partition(_NO_INDEXES)  # only numbers come before it
        head = _HEAD + before + _NO_INDEXES[:-1]
        tail = b"]" + after + _END
        former, indexes, content = self._indexes, state.indexes, self._content
        is_extended = (
            0 < len(former) <= len(indexes)
            and len(head) == self._num_head
            and not _replaced(former, indexes)
        )
        self._pieces = self._encode_indexes(indexes)
        if is_extended:
            del content[-self._num_tail :]
            content[: len(head)] = head
            content += b"".join(b"," + piece for piece in self._pieces[len(former) :])
        else:
            content = self._content = bytearray().join((head, b",".join(self._pieces)))
        content += tail
        with memoryview(content) as view:
            checksum = xxhash.xxh3_64_hexdigest(view[len(_HEAD) : -len(_END)])
        content[_CHECKSUM_AT : _CHECKSUM_AT + len(checksum)] = checksum.encode()
        self._indexes, self._num_head, self._num_tail = indexes, len(head), len(tail)
        return content

    def _encode_indexes(self, indexes: tuple[StoredIndex, ...]) -> list[bytes]:
        former, pieces = self._indexes, self._pieces
        if len(indexes) < len(former):  # the others have moved up
            known = {id(one): piece for one, piece in zip(former, pieces, strict=True)}
            return [known.get(id(one)) or msgspec.json.encode(one) for one in indexes]
        for place in _replaced(former, indexes):
            pieces[place] = msgspec.json.encode(indexes[place])
        return pieces + [msgspec.json.encode(one) for one in indexes[len(former) :]]


class _CatalogFile(Struct):
    """The two parts of the file."""

    checksum: str
    state: msgspec.Raw


class _Format(Struct):
    """What is read of a state before the rest."""

    format: int


def read_state(path: Path) -> CatalogState:
    """Read a catalog file.

    Raises:
        DataDirectoryError: it is damaged or was written by a newer program.
        FileNotFoundError: it does not exist.
    """
    content = path.read_bytes()
    try:
        file = msgspec.json.decode(content, type=_CatalogFile)
        if xxhash.xxh3_64_hexdigest(bytes(file.state)) != file.checksum:
            raise DataDirectoryError(
                f"{path} is damaged (its checksum differs); restore it from a backup"
            )
        state_format = msgspec.json.decode(file.state, type=_Format).format
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
