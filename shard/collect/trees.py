"""Trees: matching documents by node, each with a value at or under the node.

    value of a document      nodes, with the separator " > "
    Home > Garden > Tools    Home, Home > Garden, Home > Garden > Tools

A segment's values are turned into a column of nodes once, and cached. (A document has each node
once, however many of its values lie under it.) A search counts its codes like a facet's.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.code_counts import count_codes
from shard.segment.facet_columns import FacetColumn, build_column, facet_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import RangeRequest
    from shard.query.matches import Matches
    from shard.segment.segment import Segment
    from shard.segment.snapshot import Snapshot


_NO_NODES: Final = np.zeros(0, np.intp)


class _Nodes(NamedTuple):
    """The nodes of one segment."""

    column: FacetColumn
    names: list[str]
    """Full path of each node, by number."""
    children: dict[str, NDArray[np.intp]]
    """Numbers of the nodes below each node, ascending; "" has those at the top."""


def count_nodes(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest
) -> dict[int | float | str, int]:
    """Return how many matches of a segment are at, or under, each node that has any."""
    nodes = nodes_of(snapshot, part.view.segment, field, request)
    if nodes is None:
        return {}
    counts = np.zeros(len(nodes.names) + 1, np.uint32)
    count_codes(part.docs, nodes.column.codes, nodes.column.starts, counts)
    if request.parents is None:
        numbers = np.arange(len(nodes.names))
    else:
        numbers = np.concatenate(
            [nodes.children.get(parent, _NO_NODES) for parent in request.parents]
        )
    numbers = numbers[counts[numbers + 1] > 0]
    return {nodes.names[number]: int(counts[number + 1]) for number in numbers.tolist()}


def needs_nodes(snapshot: Snapshot, segment: Segment, request: RangeRequest) -> bool:
    """Return whether the nodes of a segment's documents have to be made first."""
    field = snapshot.registry.number(request.field)
    if field is None or request.field not in snapshot.dictionaries:
        return False
    return (
        facet_column(segment, field) is not None
        and COLUMN_CACHE.get(_nodes_key(segment, field, request)) is None
    )


def _nodes_key(segment: Segment, field: int, request: RangeRequest) -> Hashable:
    return "nodes", segment.uid, field, request.separator, request.parent_separator


def nodes_of(
    snapshot: Snapshot, segment: Segment, field: int, request: RangeRequest
) -> _Nodes | None:
    """Return the nodes of a segment's documents, cached; None if none has a value.

    Cost: 20 ns a value to build.
    """
    column = facet_column(segment, field)
    if column is None or request.field not in snapshot.dictionaries:
        return None
    key = _nodes_key(segment, field, request)
    nodes: _Nodes | None = COLUMN_CACHE.get(key)
    if nodes is not None:
        return nodes
    # Split each value that occurs into the paths of its nodes, numbered as they appear.
    numbers = np.flatnonzero(np.bincount(column.codes))
    numbers = numbers[numbers > 0] - 1
    texts = snapshot.dictionaries[request.field].values(0)
    positions: dict[str, int] = {}
    of_value: list[list[int]] = []
    for number in numbers.tolist():
        text = texts[number]
        names = text.split(request.separator) if request.separator else [text]
        paths = [request.separator.join(names[: depth + 1]) for depth in range(len(names))]
        of_value.append([positions.setdefault(path, len(positions)) for path in paths])
    # The nodes of each code, one row after the other; code 0 has none.
    lengths = np.zeros(int(numbers.max(initial=-1)) + 2, np.int64)
    lengths[numbers + 1] = [len(row) for row in of_value]
    starts = np.cumsum(lengths) - lengths
    rows = np.array([node for row in of_value for node in row], np.uint32)
    # Expand every (document, value) pair into (document, node) pairs.
    codes = column.codes.astype(np.int64)
    docs = np.arange(segment.num_docs, dtype=np.uint32)
    if not column.is_single:
        docs = np.repeat(docs, np.diff(column.starts))
    counts = lengths[codes]
    firsts = np.repeat(starts[codes] - (np.cumsum(counts) - counts), counts)
    found = rows[np.arange(int(counts.sum())) + firsts]
    arrays = build_column(np.repeat(docs, counts), found, segment.num_docs)
    children: dict[str, list[int]] = {}
    for node, number in positions.items():
        parent = node.rpartition(request.parent_separator)[0] if request.parent_separator else ""
        children.setdefault(parent, []).append(number)
    below = {parent: np.array(numbers, np.intp) for parent, numbers in children.items()}
    nodes = _Nodes(FacetColumn(arrays, segment.num_docs), list(positions), below)
    size = sum(array.nbytes for array in arrays.values()) + 300 * len(positions)
    COLUMN_CACHE.put(key, nodes, size, segment)
    return nodes
