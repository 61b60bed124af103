"""Refuses to listen on the network where no API key exists: anyone could do anything."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from common import data_directory
from common.errors import CommandError
from coordinator.catalog.catalog_file import read_state
from coordinator.catalog.catalog_state import KEYS_SECTION

if TYPE_CHECKING:
    from coordinator.catalog.catalog import Catalog
    from coordinator.settings import Settings


class UnsafeAddress(CommandError):
    """The service would be open to the network; the start fails."""


def check_address(settings: Settings, catalog: Catalog) -> None:
    """Refuse to start where anyone on the network could do anything.

    Raises:
        UnsafeAddress: the address is not loopback, no key exists, and --insecure is not set.
    """
    if is_open_to_all(settings, catalog):
        raise unsafe_address(settings)


def check_stored_keys(settings: Settings) -> None:
    """Refuse such a start by what is stored, before there is a process that has the catalog.

    Raises:
        UnsafeAddress: as above.
        DataDirectoryError: the catalog cannot be read.
    """
    with data_directory.start_explained(settings.data_dir), suppress(FileNotFoundError):
        if read_state(data_directory.catalog_path(settings.data_dir)).sections.get(KEYS_SECTION):
            return
    raise unsafe_address(settings)


def unsafe_address(settings: Settings) -> UnsafeAddress:
    """Return the error of an address that is open to all, which says what would be safe."""
    how = (
        "on a host that listens on 127.0.0.1; all hosts know it then"
        if settings.log_url
        else f"--data-dir {settings.data_dir}"
    )
    return UnsafeAddress(
        f"listening on {settings.host} lets everyone on the network read and change everything; "
        f"create an API key first (facetd keys create --action admin {how}), listen on 127.0.0.1, "
        "or pass --insecure"
    )


def is_open_to_all(settings: Settings, catalog: Catalog) -> bool:
    """Return whether others could do anything: the address is not loopback, and no key exists."""
    return settings.is_exposed and not catalog.section(KEYS_SECTION)
