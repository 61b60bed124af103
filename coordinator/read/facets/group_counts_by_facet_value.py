"""Counts of a search by distinct values: how many groups have each value of a facet (pure).

Shards send which values and groups occur together. A pair that several shards send counts once: a
bit is set for each, of values and groups; where these would be too many, the pairs are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.distinct_values import distinct_values
from common.kernels.decorator import kernel
from common.kernels.types import I64Array, ReadOnly, U32Array, U64Array, int64, uint64
from common.protocol.messages import FacetRequest, GroupPairs
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.read.facets.facet_cache import FacetCache
from coordinator.read.facets.global_ordinals import Numbering
from coordinator.read.facets.summed_counts import GroupCounts

_GROUP_BITS: Final = 32
"""Bits of a pair's key below the number of its value: the number of its group."""
_MARKS_MAX: Final = 1 << 26
"""Most bits of values and groups: 8 MB."""
_MARKS_PER_PAIR: Final = 2_048
"""With more bits for each pair, sorting the pairs beats touching the pages of the bits."""


class _Groups(NamedTuple):
    """The groups of all shards, numbered together."""

    sent: list[bytes]
    """Tokens, by response."""
    numbers: list[NDArray[np.uint32]]
    """By response, by the shard's number."""
    num_groups: int

    @classmethod
    def of(cls, sent: list[bytes]) -> _Groups:
        """Number the groups that shards have sent the tokens of."""
        own_tokens = [np.frombuffer(tokens, np.uint64) for tokens in sent]
        tokens = distinct_values(np.concatenate([np.zeros(0, np.uint64), *own_tokens]))
        numbers = [np.searchsorted(tokens, own).astype(np.uint32) for own in own_tokens]
        return cls(sent, numbers, len(tokens))


@kernel(allocates=False)
def _count_new(
    codes: ReadOnly[U32Array],
    groups: ReadOnly[U32Array],
    to_code: I64Array,
    to_group: U32Array,
    num_groups: int,
    marks: U64Array,
    counts: I64Array,
) -> None:
    """Count the pairs that are not marked yet, and mark them.

    Args:
        codes: of the pairs, as their shard numbers them.
        groups: likewise.
        to_code: by the shard's number.
        to_group: likewise.
        num_groups: of all shards.
        marks: bitset by value and group.
        counts: by value; changed.
    """
    for i in range(len(codes)):
        code = to_code[codes[i]]
        at = code * num_groups + int64(to_group[groups[i]])
        mark = uint64(1) << uint64(at & 63)
        word = marks[at >> 6]
        marks[at >> 6] = word | mark
        counts[code] += 1 if word & mark == 0 else 0


def count_groups(
    requests: Sequence[FacetRequest],
    cache: FacetCache,
    answers: ShardResponses,
    numberings: Sequence[Numbering],
) -> list[GroupCounts]:
    """Count the groups that have each value of each facet.

    Args:
        requests: the facets, in the order of the responses.
        cache: knows the dictionaries that the responses refer to.
        answers: pairs (shard ordinal, response).
        numberings: of the facets.

    Cost: 3 to 10 ns a pair of value and group; 30 to 70 where they are sorted.
    """
    found = []
    groups = _Groups([], [], 0)
    for position, request in enumerate(requests):
        parts = [(shard, answer.facet_groups[position]) for shard, answer in answers]
        sent = [pairs.tokens for _, pairs in parts]
        if sent != groups.sent:  # mostly all facets count within the same matches
            groups = _Groups.of(sent)
        num_values = len(cache.values(request.field))
        found.append(_count(num_values, numberings[position], parts, groups))
    return found


def _count(
    num_values: int,
    numbering: Numbering,
    parts: Sequence[tuple[int, GroupPairs]],
    groups: _Groups,
) -> GroupCounts:
    counts = np.zeros(num_values + 1, np.int64)  # at 0 what is missing
    num_marks = (num_values + 1) * groups.num_groups
    num_pairs = sum([len(pairs.groups) >> 2 for _, pairs in parts])
    marks = None
    if num_marks <= min(_MARKS_MAX, _MARKS_PER_PAIR * num_pairs):
        marks = np.zeros((num_marks + 63) >> 6, np.uint64)
    keys = [np.zeros(0, np.int64)]
    for (shard, pairs), to_group in zip(parts, groups.numbers, strict=True):
        to_code = np.append(0, numbering.to_number[shard].astype(np.int64) + 1)
        codes = np.frombuffer(pairs.codes, np.uint32)
        own = np.frombuffer(pairs.groups, np.uint32)
        if pairs.counts:
            counts[to_code.take(codes)] += np.frombuffer(pairs.counts, np.uint32)
        elif marks is None:
            keys.append((to_code.take(codes) << _GROUP_BITS) | to_group.take(own))
        else:
            _count_new(codes, own, to_code, to_group, groups.num_groups, marks, counts)
    if marks is None:
        pairs_once = distinct_values(np.concatenate(keys))
        counts += np.bincount(pairs_once >> _GROUP_BITS, minlength=len(counts))
    return GroupCounts(counts[1:], int(counts[0]))
