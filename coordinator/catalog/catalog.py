"""The catalog: the indexes with their configurations, the aliases and the API keys.

One durable file (`catalog_file.py`). The shards take their configurations from it, at the handshake
and after every change, so a configuration is in force on all shards or on none.
`revision` grows with every change of the catalog. An index's revision is greater than the catalog's
was when its configuration arrived, so no revision is ever reused, not even by a later index of the
same name. Folders on disk are named by `number`, which is never reused either.

The state is an immutable value (`catalog_state.py`): a reader sees one moment. Changes are
functions from state to state, applied one after another (`Catalog.change`). A changed configuration
becomes durable first, then reaches the shards, and only then becomes *active*, that is, visible to
requests: a search never names a revision that a shard has not applied.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Final

from common import data_directory
from common.data_directory import DataDirectoryError
from common.deadline import Deadline
from common.disk_errors import explaining_disk_failure
from common.errors import NotFound
from common.index_configuration import IndexConfiguration
from common.index_configuration_parser import parse_stored
from common.process.uncancelled_waiting import until_done
from common.protocol.messages import CatalogUpdate
from coordinator.catalog.catalog_difference import difference
from coordinator.catalog.catalog_file import CatalogFile, CatalogInDoubt, whole
from coordinator.catalog.catalog_state import CatalogState, StoredIndex
from coordinator.catalog.index_names import ALL_INDEXES

_CREATE: Final = "POST a configuration (at least {}) to /{index}/configuration to create it"
_SEVERAL: Final = (
    'POST /_search {"searches": [{"index": "films"}, {"index": "books"}], "merge": {}} searches '
    "several"
)
Propose = Callable[
    [Callable[[CatalogState], CatalogState], Deadline | None], Awaitable[CatalogState]
]


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


def _complete() -> None:
    """No other coordinator changes this catalog."""


class Catalog:
    """The catalog of one data directory.

    Args:
        file: has the state, or is never written.
        num_shards: number of shards that the data is spread over.
        state: as it is stored.

    Attributes:
        is_ours: whether this process makes the changes; false: another one does.
        state: the durable state, as sent to the shards.
        indexes: as requests see them, by name.
        aliases: as requests see them, alias to name.
        num_shards: number of shards that the data is spread over.
        propose: carries out the changes of `change` where several hosts share one catalog.
        check_complete: called before an index or a key is said not to exist; raises if other hosts
            may have it already.
        on_stored: called after every change of the durable state or of what requests see; also
            after one that failed, which others may have read before it was undone.
        on_doubt: called when the file may have a state that requests do not see: only another
            process knows, by reading it.
    """

    is_ours: ClassVar[bool] = True

    def __init__(self, file: CatalogFile, num_shards: int, state: CatalogState) -> None:
        self._stored = file
        self._lock = asyncio.Lock()
        self.num_shards = num_shards
        self.state = state
        self.indexes: dict[str, Index] = {}
        self._active: tuple[StoredIndex, ...] = ()
        self.aliases: dict[str, str] = {}
        self._listeners: list[Callable[[], None]] = []
        self._waiting: dict[asyncio.Future[None], None] = {}  # in the order of their arrival
        self.propose: Propose | None = None
        self.check_complete: Callable[[], None] = _complete
        self.on_stored: Callable[[], None] | None = None
        self.on_doubt: Callable[[CatalogInDoubt], None] | None = None
        self.activate()

    @classmethod
    def open(cls, data: Path, num_shards: int, *, decides_shards: bool = True) -> Catalog:
        """Open the catalog of a data directory that this process owns; create it if it is new.

        Args:
            data: the directory.
            num_shards: that it is partitioned over.
            decides_shards: whether a new directory is partitioned so from now on; else the next one
                to open it decides.

        Raises:
            DataDirectoryError: the directory belongs to a different number of shards, was written
                by a newer program, or is damaged; the message says what to do.
        """
        manifest = data_directory.check_manifest(data, num_shards)
        path = data_directory.catalog_path(data)
        file = CatalogFile(path)
        try:
            state = file.open()
        except FileNotFoundError:
            if manifest is not None:
                raise DataDirectoryError(
                    f"{path} is missing, though {data} has data; restore it from a backup"
                ) from None
            state = CatalogState()
            file.replace(state)
        is_old = manifest is not None and manifest.min_reader < data_directory.MIN_READER
        if is_old or (manifest is None and decides_shards):
            # Written last, so that a directory with a manifest is complete. In one of an older
            # format this program writes what older ones cannot read, so they must refuse it.
            data_directory.write_manifest(data, num_shards, f"facetd {program_version()}")
        return cls(file, num_shards, state)

    def index(self, name: str) -> Index:
        """Return the index with a name or alias.

        Raises:
            NotFound: `index_not_found`; says how to create it.
            Unavailable: another host may have created it.
        """
        index = self.indexes.get(name)
        if index is None:
            index = self.indexes.get(self.aliases.get(name, ""))
        if index is None:
            self.check_complete()
            names_several = ALL_INDEXES in name or "," in name
            raise NotFound(
                f"there is no index {name!r}",
                advice=_SEVERAL if names_several else _CREATE,
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

    def has_number(self, number: int) -> bool:
        """Return whether there is an index of this number, whatever its name."""
        return any(one.number == number for one in self.indexes.values())

    def section(self, name: str) -> dict[str, Any]:
        """Return the content of a section; do not modify it."""
        return self.state.sections.get(name, {})

    async def change(
        self,
        function: Callable[[CatalogState], CatalogState],
        *,
        is_active: bool = True,
        deadline: Deadline | None = None,
    ) -> CatalogState:
        """Apply a change durably; changes run one after another.

        Args:
            function: returns the new state; may raise to leave everything as it is.
            is_active: whether requests see changed aliases and sections at once; changed indexes
                become visible with `activate`, after the shards have them.
            deadline: how long to wait for other hosts that share the catalog, and for what this
                one has to do before; None: the caller looks after that.

        Returns:
            The new state.
        """
        if self.propose is not None:
            return await self.propose(function, deadline)
        return await self.change_here(function, is_active=is_active)

    async def change_here(
        self, function: Callable[[CatalogState], CatalogState], *, is_active: bool = True
    ) -> CatalogState:
        """Apply a change to this host's catalog; see `change`."""
        async with self._lock:
            state = function(self.state)
            # To its end: no cancellation between the write on disk and the assignment here.
            writing = asyncio.ensure_future(
                asyncio.to_thread(self._stored.store, self.state, state)
            )
            writing.add_done_callback(self._look_for_doubt)
            try:
                await until_done(writing)
                with explaining_disk_failure("nothing was changed"):
                    writing.result()
            finally:
                has_changed = writing.exception() is None
                if has_changed:
                    self.state = state
                if has_changed and is_active:
                    self._activate_names()
                elif self.on_stored is not None:
                    self.on_stored()
            return state

    def _look_for_doubt(self, writing: asyncio.Future[None]) -> None:
        error = None if writing.cancelled() else writing.exception()
        if isinstance(error, CatalogInDoubt) and self.on_doubt is not None:
            self.on_doubt(error)

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
        self._waiting[waiting] = None
        try:
            await asyncio.wait((waiting,), timeout=seconds)
        finally:
            self._waiting.pop(waiting, None)

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
        """Return the durable state as the content of a catalog file."""
        return whole(self.state)

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
