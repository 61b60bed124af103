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


def make(name: str, num_items: int) -> Peer:
    """Return the adapter of a peer for a corpus of some size.

    "facetd:4" has four shards, "facetd+cache" and "facetd:4+cache" have a result cache.
    """
    name, _, cache = name.partition("+")
    name, _, num_shards = name.partition(":")
    module = import_module(f"benchmarks.peers.{name}")
    settings: dict[str, Any] = {"num_shards": int(num_shards)} if num_shards else {}
    if cache:
        settings["caches_results"] = True
    peer: Peer = getattr(module, PEERS[name])(num_items, **settings)
    return peer
