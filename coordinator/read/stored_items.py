"""Fetches the stored items of hits that the shards did not send along with them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import numpy as np

from common.deadline import Deadline
from common.hits_page_byte_limit import is_too_large, page_too_large
from common.protocol.messages import FetchRequest, FetchResponse, SearchResponse
from common.protocol.methods import FETCH
from coordinator.catalog.catalog import Index
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.fan_out import gather_each
from coordinator.read.hit_merging import Hit
from coordinator.read.hit_rendering import rendered_items
from coordinator.read.scatter import SearchOutcome

READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of stored items that `read_items` requests from a shard at a time; the last item may exceed
them."""


async def page_items(cluster: Cluster, outcome: SearchOutcome, hits: Sequence[Hit]) -> list[bytes]:
    """Return the JSON of a page's hits: stored bytes, projected and marked as the search says.

    Args:
        cluster: the shards.
        outcome: of the search that found the hits.
        hits: of the page.

    Raises:
        Unavailable: a shard that had a hit is down, busy or late.
        PayloadTooLarge: the items are too large for one page.
    """
    parameters = outcome.parameters
    documents, marks = await _documents(cluster, outcome, hits)
    if is_too_large(len(documents), sum(map(len, documents))):
        raise page_too_large()
    return await rendered_items(
        parameters, hits, documents, None if parameters.marks is None else marks
    )


async def _documents(
    cluster: Cluster, outcome: SearchOutcome, hits: Sequence[Hit]
) -> tuple[list[bytes], list[dict[str, Any]]]:
    """Return the stored bytes of the hits, and the marks if requested.

    Those that the shards did not send along are fetched.
    """
    missing = [hit for hit in hits if not _is_sent_along(hit)]
    fetched = await _fetched(cluster, outcome, missing) if missing else []
    documents: list[bytes] = []
    marks: list[dict[str, Any]] = []
    taken = [0] * cluster.num_shards
    for hit in hits:
        part: SearchResponse | FetchResponse | None
        if _is_sent_along(hit):
            part, position = hit.answer, hit.rank
        else:
            part, position = fetched[hit.shard], taken[hit.shard]
            taken[hit.shard] += 1
        assert part is not None, "each shard that has a missing hit has been asked"
        document = part.documents[position]
        assert document is not None, "only a fetch with bytes_max goes on past damaged items"
        documents.append(document)
        if part.marks:
            marks.append(part.marks[position])
    return documents, marks


def _is_sent_along(hit: Hit) -> bool:
    """Return whether the shard has sent the document of a hit, marked if requested, with it."""
    return hit.rank < len(hit.answer.documents)


async def _fetched(
    cluster: Cluster, outcome: SearchOutcome, hits: Sequence[Hit]
) -> list[FetchResponse | None]:
    """Return, by shard, the documents of the hits, in their order; None where there are none."""
    marks, state = outcome.parameters.marks, outcome.state
    requests: list[FetchRequest | None] = []
    for shard in range(cluster.num_shards):
        records = np.array([hit.record for hit in hits if hit.shard == shard], np.uint64)
        requests.append(
            FetchRequest(
                state.index.number,
                state.horizon,
                state.index.revision,
                records.tobytes(),
                outcome.scored.query if marks is not None else None,
                marks,
            )
            if len(records)
            else None
        )
    return await gather_each(cluster, FETCH, requests, state.deadline, is_partial=False)


async def read_items(
    cluster: Cluster,
    index: Index,
    hits: Sequence[Hit],
    horizon: int,
    timeout_ms: int,
    *,
    wants_ids: bool = False,
) -> AsyncGenerator[list[tuple[Hit, bytes | None]], None]:
    """Yield hits with their stored items, in order, a few megabytes at a time.

    Args:
        cluster: the shards.
        index: the index the hits were found in.
        hits: any number of them.
        horizon: the state they were found in.
        timeout_ms: per part.
        wants_ids: yield ids as JSON instead of items; empty where an item has none.

    Yields:
        Parts of at least one hit each; None marks a damaged item.

    Raises:
        Unavailable: a shard is down or late.
    """
    num_shards = cluster.num_shards
    to_read: list[deque[int]] = [deque() for _ in range(num_shards)]
    for hit in hits:
        to_read[hit.shard].append(hit.record)
    read: list[deque[bytes | None]] = [deque() for _ in range(num_shards)]
    position = 0
    while position < len(hits):
        requests = [
            None
            if read[shard] or not to_read[shard]
            else FetchRequest(
                index.number,
                horizon,
                index.revision,
                np.array(to_read[shard], np.uint64).tobytes(),
                bytes_max=READ_BYTES_MAX,
                wants_ids=wants_ids,
            )
            for shard in range(num_shards)
        ]
        deadline = Deadline.after_ms(timeout_ms)
        fetched = await gather_each(cluster, FETCH, requests, deadline, is_partial=False)
        for shard, part_read in enumerate(fetched):
            if part_read is not None:
                read[shard].extend(part_read.documents)
                for _ in part_read.documents:
                    to_read[shard].popleft()
        part = []
        while position < len(hits) and read[hits[position].shard]:
            hit = hits[position]
            part.append((hit, read[hit.shard].popleft()))
            position += 1
        yield part
