"""What a new index needs of the catalog: a free name, and room for one more."""

from __future__ import annotations

from collections.abc import Mapping

from common.errors import Conflict, InvalidRequest
from common.limits import Limits
from coordinator.catalog.catalog_state import CatalogState


def check_free(state: CatalogState, name: str) -> None:
    """Check that no index or alias has a name.

    Raises:
        Conflict: `index_exists`.
    """
    if name in state.aliases or any(one.name == name for one in state.indexes):
        raise Conflict(
            f"there is an index or alias {name!r} already; choose another name, or remove it first",
            code="index_exists",
        )


def check_no_alias(aliases: Mapping[str, str], name: str) -> None:
    """Check that an index to configure is named by its own name.

    Raises:
        InvalidRequest: `invalid_index_name`; the name is an alias.
    """
    if name in aliases:
        raise InvalidRequest(
            f"{name!r} is an alias of {aliases[name]!r}; configure that index",
            code="invalid_index_name",
        )


def check_num_indexes(state: CatalogState, limits: Limits, num_new: int) -> None:
    """Check that this many more indexes are within the limit.

    Raises:
        InvalidRequest: `too_many_indexes`.
    """
    if len(state.indexes) + num_new > limits.indexes_max:
        raise InvalidRequest(
            f"there may be {limits.shown('indexes_max')} indexes; delete one first",
            code="too_many_indexes",
        )
