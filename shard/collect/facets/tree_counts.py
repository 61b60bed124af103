"""Trees: matching documents by node, each with a value at or under the node.

    value of a document      nodes, with the separator " > "
    Home > Garden > Tools    Home, Home > Garden, Home > Garden > Tools

A segment's values are turned into a column of nodes once, and cached. (A document has each node
once, however many of its values lie under it.) A search counts its codes like a facet's.
"""

from __future__ import annotations

from collections.abc import Hashable
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.index_configuration import TREE_LEVELS_MAX
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.facets.match_value_pairs import ranges_of
from shard.segment.columns.code_counting import count_codes
from shard.segment.columns.facet_column_builder import build_column
from shard.segment.columns.facet_columns import FacetColumn, facet_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import RangeRequest
    from shard.query.matches import Matches
    from shard.segment.segment import Segment
    from shard.segment.snapshot import Snapshot


_NO_NODES: Final = np.zeros(0, np.intp)
_POINTER_BYTES: Final = 8
_PARENT_BYTES: Final = 140
"""Of an entry of `_Nodes.children`, beside its text and numbers (tracemalloc: 133 to 136)."""


class _Nodes(NamedTuple):
    """The nodes of one segment."""

    column: FacetColumn
    names: list[str]
    """Full path of each node, by number."""
    children: dict[str, NDArray[np.intp]]
    """Numbers of the nodes below each node, ascending; "" has those at the top."""


def count_nodes(
    snapshot: Snapshot, part: Matches, field: int, request: RangeRequest
) -> dict[str, int]:
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

    Cost to build, at three levels: 50 to 100 ns a value of a document, and 3 to 6 µs a different
    value (CPU time on a 2-core VM, 2026-11-29).
    """
    column = facet_column(segment, field)
    if column is None or request.field not in snapshot.dictionaries:
        return None
    dictionary = snapshot.dictionaries[request.field]

    def make() -> _Nodes:
        values = column.numbers()
        names: dict[str, int] = {}
        of_values = [
            [names.setdefault(path, len(names)) for path in _paths(text, request.separator)]
            for text in dictionary.texts(values)
        ]
        arrays = _column_of_nodes(column, segment.num_docs, values, of_values)
        below = _children(names, request.parent_separator)
        return _Nodes(FacetColumn(arrays, segment.num_docs), list(names), below)

    return COLUMN_CACHE.get_or_make(_nodes_key(segment, field, request), make, _size, segment)


def _size(nodes: _Nodes) -> int:
    """Return the bytes that nodes take; the path of one with others below is there twice."""
    names, children = nodes.names, nodes.children
    return (
        nodes.column.codes.nbytes
        + nodes.column.starts.nbytes
        + sum(map(getsizeof, names))
        + _POINTER_BYTES * len(names)
        + sum([getsizeof(path) + numbers.nbytes for path, numbers in children.items()])
        + _PARENT_BYTES * len(children)
    )


def _paths(text: str, separator: str) -> list[str]:
    """Return the full paths of the nodes that a value is at or under, from the top.

    A text of separators only would have as many nodes, which take the square of its length.
    """
    if not separator:
        return [text]
    names = text.split(separator, TREE_LEVELS_MAX)[:TREE_LEVELS_MAX]
    return [separator.join(names[: depth + 1]) for depth in range(len(names))]


def _column_of_nodes(
    column: FacetColumn, num_docs: int, values: NDArray[np.intp], of_values: list[list[int]]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a column of nodes, given one of values.

    Args:
        column: of values.
        num_docs: of the segment.
        values: the numbers of those that occur, ascending.
        of_values: the nodes of each of these.
    """
    # The nodes of each code, one row after the other; code 0 has none.
    lengths = np.zeros(int(values.max(initial=-1)) + 2, np.int64)
    lengths[values + 1] = [len(row) for row in of_values]
    starts = np.cumsum(lengths) - lengths
    rows = np.array([node for row in of_values for node in row], np.uint32)
    # Expand every (document, value) pair into (document, node) pairs.
    docs = np.arange(num_docs, dtype=np.uint32)
    if not column.is_single:
        docs = np.repeat(docs, np.diff(column.starts))
    codes = column.codes.astype(np.int64)
    counts = lengths[codes]
    return build_column(np.repeat(docs, counts), rows[ranges_of(starts[codes], counts)], num_docs)


def _children(nodes: dict[str, int], separator: str) -> dict[str, NDArray[np.intp]]:
    """Return the numbers of the nodes below each node; `_Nodes.children`."""
    children: dict[str, list[int]] = {}
    for node, number in nodes.items():
        parent = node.rpartition(separator)[0] if separator else ""
        children.setdefault(parent, []).append(number)
    return {parent: np.array(numbers, np.intp) for parent, numbers in children.items()}
