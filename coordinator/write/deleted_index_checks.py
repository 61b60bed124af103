"""Whether an index that is to be changed is still there, and the errors where it is not."""

from __future__ import annotations

from common.errors import ConfigurationSwitched, NotFound
from coordinator.catalog.catalog import Index
from coordinator.catalog.catalog_state import CatalogState


def without(state: CatalogState, index: Index, replacing: Index | None = None) -> CatalogState:
    """Return a state of the catalog after an index was deleted.

    Args:
        state: with the index.
        index: what is deleted.
        replacing: the index that takes its name.

    Raises:
        NotFound: one of the indexes is not there any more, or has another name by now.
    """
    for one in (index, replacing):
        if one is not None:
            check_still_there(state, one)
    if replacing is None:
        return state.without_index(index.name)
    return state.replaced(replacing.name, index.name)


def check_still_there(state: CatalogState, index: Index) -> None:
    """Check that an index is in a state under its name: another host may have renamed it.

    Raises:
        NotFound: it is not.
    """
    if not any((one.number, one.name) == (index.number, index.name) for one in state.indexes):
        raise no_index(index.name)


def index_deleted() -> ConfigurationSwitched:
    """Return the error of a write whose index was deleted before it was applied.

    Nothing of it is stored, so the request may begin again: its name may denote another index by
    now.
    """
    return ConfigurationSwitched(
        "the index was deleted before the write was applied; nothing was written"
    )


def no_index(name: str) -> NotFound:
    """Return the error for an index that no longer exists."""
    return NotFound(f"there is no index {name!r} any more", code="index_not_found")
