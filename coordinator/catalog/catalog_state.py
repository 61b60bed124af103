"""The content of the catalog as an immutable value.

A change of one of thousands of indexes leaves all other `StoredIndex` objects as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from common.protocol.messages import IndexEntry, SnapshotSource

CATALOG_FORMAT: Final = 1
"""Of a whole state; records of changes came with format 3 of the data directory."""
KEYS_SECTION: Final = "keys"
"""Name of the section with the API keys."""


class StoredIndex(Struct, frozen=True):
    """One index as stored in the file."""

    number: int
    name: str
    revision: int
    configuration: dict[str, Any]
    source: SnapshotSource | None = None
    """Snapshot from which a shard that lacks the index rebuilds it; kept until all shards have it
    (`IndexRestorer.restore`)."""

    @property
    def entry(self) -> IndexEntry:
        """The index as sent to the shards."""
        return IndexEntry(self.number, self.name, self.revision, self.configuration, self.source)


class RestoredIndex(NamedTuple):
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
    """What other modules store here durably, by name; `KEYS_SECTION` belongs to
    `coordinator.http.security.api_keys`."""

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
