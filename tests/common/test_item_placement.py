"""The hash of an id, and the shard that owns it."""

from __future__ import annotations

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from common.item_placement import (
    NUM_SLOTS,
    hash_id,
    shard_of_id,
    shard_of_slot,
    shards_of,
    slot_of,
    xxh64,
)


@given(st.binary(max_size=300), st.integers(0, 7))
def test_kernel_hashes_like_the_package(data: bytes, start: int) -> None:
    array = np.frombuffer(bytearray(bytes(start) + data), np.uint8)

    assert int(xxh64(array, start, len(array))) == xxhash.xxh64_intdigest(data) == hash_id(data)


def test_hash_never_changes() -> None:
    """Shards on disk were filled by this hash."""
    assert hash_id(b"5") == 0x6A81B47405B648ED


@given(st.integers(1, 64))
def test_every_shard_owns_a_run_of_slots_of_about_equal_length(num_shards: int) -> None:
    shards = [shard_of_slot(slot, num_shards) for slot in range(NUM_SLOTS)]

    counts = [shards.count(shard) for shard in range(num_shards)]
    assert shards == sorted(shards)
    assert max(counts) - min(counts) <= 1


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.booleans())), st.integers(1, 9))
def test_batch_is_routed_like_its_items(batch: list[tuple[bytes, bool]], num_shards: int) -> None:
    places = np.arange(len(batch), dtype=np.uint64) + np.uint64(7 << 32)
    hashes = np.array([hash_id(name) for name, _ in batch], np.uint64)
    has_id = np.array([has for _, has in batch], np.bool_)

    shards = shards_of(hashes, has_id, places, num_shards)

    expected = [
        shard_of_id(name, num_shards)
        if has
        else shard_of_slot(
            slot_of(xxhash.xxh64_intdigest(int(place).to_bytes(8, "little"))), num_shards
        )
        for (name, has), place in zip(batch, places, strict=True)
    ]
    assert shards.tolist() == expected
