"""The engines that facetd is compared with, one adapter a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.peers.base import Peer

PEERS = {
    "facetd": "Facetd",
    "lucene": "Lucene",
    "tantivy": "Tantivy",
    "typesense": "Typesense",
    "redisearch": "RediSearch",
    "xapian": "Xapian",
    "sqlite": "Sqlite",
    "duckdb": "Duckdb",
    "itemsjs": "ItemsJs",
    "orama": "Orama",
}
"""Name of the module to name of its class, in the order of the table."""


_NUMBERS = {"facetd": "num_shards", "lucene": "num_searchers"}
_SWITCHES = {"facetd+cache": "caches_results", "lucene+merged": "is_merged"}


def check_name(text: str) -> None:
    """Raise `ValueError` unless `make` takes the name of a peer."""
    _parse(text)


def make(name: str, num_items: int) -> Peer:
    """Return the adapter of a peer for a corpus of some size.

    "facetd:4" has four shards, "facetd+cache" and "facetd:4+cache" have a result cache.
    "lucene:2" searches with two threads a query, "lucene+merged" has one segment.
    """
    name, settings = _parse(name)
    module = import_module(f"benchmarks.peers.{name}")
    peer: Peer = getattr(module, PEERS[name])(num_items, **settings)
    return peer


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    """Split a name with its options into the name and the arguments of the class."""
    name, _, switch = text.partition("+")
    name, _, number = name.partition(":")
    if name not in PEERS:
        raise ValueError(f"{name!r} is none of {', '.join(PEERS)}")
    settings: dict[str, Any] = {}
    if number:
        if name not in _NUMBERS or not number.isdecimal():
            raise ValueError(
                f"{text!r}: only {' and '.join(_NUMBERS)} take a number, as in facetd:4"
            )
        settings[_NUMBERS[name]] = int(number)
    if switch:
        if f"{name}+{switch}" not in _SWITCHES:
            raise ValueError(f"{text!r}: known are {', '.join(_SWITCHES)}")
        settings[_SWITCHES[f"{name}+{switch}"]] = True
    return name, settings
