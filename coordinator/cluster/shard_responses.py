"""The responses of the shards that answered a search, each with the ordinal of its shard.

A shard that is down has none where the request allows partial results, so a position among the
responses says nothing about the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from common.protocol.messages import SearchResponse

ShardResponses: TypeAlias = Sequence[tuple[int, SearchResponse]]
"""Pairs (shard ordinal, response), by shard."""


def answered(responses: Sequence[SearchResponse | None]) -> list[tuple[int, SearchResponse]]:
    """Return the responses of the shards that answered.

    Args:
        responses: by shard ordinal; None: the shard is down.
    """
    return [(i, response) for i, response in enumerate(responses) if response is not None]
