"""The entry of an index: its number, name, revision and configuration, in LMDB and in the manifest.

Both have it, so that an index can be rebuilt if its manifest is damaged.
"""

from __future__ import annotations

import msgspec

from common.protocol.messages import IndexEntry
from shard.storage.lmdb_codecs import decode_value, encode_value
from shard.storage.lmdb_environment import Environment, SubDatabase, Transaction
from shard.storage.manifest import IndexManifest
from shard.storage.storage_errors import DamagedEnvironment

_CONFIGURATION_KEY = b"configuration"
_RESTORED_KEY = b"restored"
_decode_entry = msgspec.json.Decoder(IndexEntry).decode  # once: see manifest.py


def manifest_entry(manifest: IndexManifest) -> IndexEntry:
    """Return the configuration that a manifest's files were made with."""
    return IndexEntry(manifest.number, manifest.name, manifest.revision, manifest.configuration)


def read_entry(environment: Environment) -> IndexEntry:
    """Return the configuration in LMDB, with which an index without manifest is rebuilt.

    Raises:
        DamagedEnvironment: there is none.
    """
    with environment.read() as txn:
        value = txn.get(SubDatabase.META, _CONFIGURATION_KEY)
    if value is None:
        raise DamagedEnvironment(
            f"{environment.data_path} has no configuration: restore it from a backup, "
            "or remove the index"
        )
    content = decode_value(0, value, "the configuration of an index")
    return _decode_entry(content)


def write_entry(environment: Environment, entry: IndexEntry) -> None:
    """Store the configuration in LMDB too, in case the manifest gets damaged."""
    environment.change(lambda txn: put_entry(txn, entry))


def read_restored(environment: Environment) -> int:
    """Return the newest write group that an index began with: 0, unless it is from a snapshot."""
    with environment.read() as txn:
        value = txn.get(SubDatabase.META, _RESTORED_KEY)
    return 0 if value is None else int(decode_value(0, value, "the origin of an index"))


def write_restored(environment: Environment, entry: IndexEntry, seq: int) -> None:
    """Store the configuration of an index from a snapshot, and the group that it begins with."""

    def put(txn: Transaction) -> None:
        put_entry(txn, entry)
        txn.put(SubDatabase.META, _RESTORED_KEY, encode_value(0, b"%d" % seq))

    environment.change(put)


def put_entry(txn: Transaction, entry: IndexEntry) -> None:
    """Store the configuration as part of a transaction."""
    txn.put(SubDatabase.META, _CONFIGURATION_KEY, encode_value(0, msgspec.json.encode(entry)))
