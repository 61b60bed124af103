"""The engines that facetd is compared with, one adapter a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    """Return the adapter of a peer for a corpus of some size; "facetd:4" has four shards."""
    name, _, num_shards = name.partition(":")
    module = import_module(f"benchmarks.peers.{name}")
    settings = {"num_shards": int(num_shards)} if num_shards else {}
    peer: Peer = getattr(module, PEERS[name])(num_items, **settings)
    return peer
