"""Which terms of a half-typed word some documents have: found from prefix to longer prefix.

A prefix begins thousands of terms; a few documents have few of them. Prefix lists
(`shard/segment/text/prefix_lists.py`) nest, so each is looked up only among the documents in the
list of the prefix that encloses it, and a list that none of these has is passed over with all that
is inside it:

    prefix list   documents   terms
    se            4 9 12      sell, sense: in no longer list   read in 4 9 12
      sea         4 9         seal, season                     read in 4 9
      sec         none        section, …                       not read, nor any list inside sec
      set         12          set, settle                      read in 12

What comes out are *readings*: a term, and the documents among which to read its list.

Cost: one walk per list over the documents of the enclosing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.array_growth import grown
from common.kernels.decorator import arguments, kernel
from common.kernels.order_checks import expect_ascending
from common.kernels.types import U32Array, int64
from shard.segment.text.postings import PostingLists
from shard.segment.text.postings_cursor import advance, open_entries
from shard.segment.text.prefix_lists import PrefixRanges

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DEPTH_MAX: Final = 8
"""Depth of the stack of nested prefixes by which terms are found."""
_LISTED_MIN: Final = 256
"""Least room for listed documents."""


@arguments
class ListedDocs(NamedTuple):
    """Ascending documents, and each one's position among those wanted."""

    docs: NDArray[np.uint32]
    numbers: NDArray[np.int64]


@arguments
class Readings(NamedTuple):
    """Terms to read, and in which documents.

    Attributes:
        terms: ordinal of each.
        origins: the query term that each stands for: its position among these.
        starts: position of the first of its documents among the listed.
        ends: position after the last.
    """

    terms: NDArray[np.int64]
    origins: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@arguments
class _OpenLists(NamedTuple):
    """Stack of the prefix lists that enclose the current one, shortest prefix first.

    Attributes:
        numbers: of each list.
        unread_ends: where those of its terms end that have no reading yet.
        starts: by list, position of the first of its documents among the listed.
        ends: position after the last.
    """

    numbers: NDArray[np.int64]
    unread_ends: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@arguments
class _Descent(NamedTuple):
    """A walk from one prefix to the longer ones inside it.

    Attributes:
        lists: of the segment.
        num_terms: of its vocabulary.
        prefixes: the term ranges of all prefix lists.
        origin: the query term that has the prefix.
        opened: the lists that enclose the current one.
        readings: output, with room for all.
    """

    lists: PostingLists
    num_terms: int
    prefixes: PrefixRanges
    origin: int
    opened: _OpenLists
    readings: Readings


@kernel(allocates=False)
def _select_docs(lists: PostingLists, term: int, docs: ListedDocs, selected: ListedDocs) -> int:
    """Write those of the documents that a list has, with their numbers; return how many."""
    expect_ascending(docs.docs)
    num_found = 0
    cursor = open_entries(term)
    while True:
        cursor = advance(lists, cursor, docs.docs)
        if cursor.size == 0:
            break
        selected.docs[num_found] = cursor.doc
        selected.numbers[num_found] = docs.numbers[cursor.target]
        num_found += 1
    return num_found


@kernel(allocates=False)
def _num_readings_max(num_terms: int, prefixes: PrefixRanges, terms: U32Array) -> int:
    """Return how many readings there are at most: of each vocabulary term one per query term.

    How many there are depends on the documents.
    """
    most = 0
    for term in terms:
        if term < num_terms:
            most += 1
        else:
            number = term - num_terms
            most += int64(prefixes.prefix_lasts[number]) - int64(prefixes.prefix_firsts[number])
    return most


@kernel
def _room_for_readings(size: int) -> Readings:
    """Return arrays for the members of `Readings`, not filled."""
    return Readings(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )


@kernel
def _empty_stack() -> _OpenLists:
    return _OpenLists(
        np.empty(_DEPTH_MAX, np.int64),
        np.empty(_DEPTH_MAX, np.int64),
        np.empty(_DEPTH_MAX, np.int64),
        np.empty(_DEPTH_MAX, np.int64),
    )


@kernel(inline=True, allocates=False)
def _put_reading(
    readings: Readings, num_readings: int, term: int, origin: int, start: int, end: int
) -> int:
    """Append a reading; return how many there are then."""
    readings.terms[num_readings] = term
    readings.origins[num_readings] = origin
    readings.starts[num_readings] = start
    readings.ends[num_readings] = end
    return num_readings + 1


@kernel(inline=True, allocates=False)
def _read_rest(descent: _Descent, depth: int, first: int, num_readings: int) -> int:
    """Read the terms of an open list from `first` on that have no reading yet.

    Returns:
        How many readings there are then.
    """
    opened = descent.opened
    for term in range(first, opened.unread_ends[depth]):
        num_readings = _put_reading(
            descent.readings,
            num_readings,
            term,
            descent.origin,
            opened.starts[depth],
            opened.ends[depth],
        )
    return num_readings


@kernel(allocates=False)
def _close_lists(descent: _Descent, until: int, depth: int, num_readings: int) -> tuple[int, int]:
    """Close the innermost open lists whose first term is after `until`; read what is left of them.

    Returns:
        (the depth, the number of readings) then.
    """
    firsts = descent.prefixes.prefix_firsts
    while depth >= 0:
        first = int64(firsts[descent.opened.numbers[depth]])
        if first <= until:
            break
        num_readings = _read_rest(descent, depth, first, num_readings)
        depth -= 1
    return depth, num_readings


@kernel(inline=True, allocates=False)
def _open_list(
    opened: _OpenLists, depth: int, number: int, last: int, start: int, end: int
) -> None:
    """Push a list whose terms end at `last`, none of them read, with its documents."""
    opened.numbers[depth] = number
    opened.unread_ends[depth] = last
    opened.starts[depth] = start
    opened.ends[depth] = end


@kernel(inline=True, allocates=False)
def _skip_inside(prefixes: PrefixRanges, number: int) -> int:
    """Return the greatest lower number of a list that is not inside a list; -1 if none is."""
    firsts = prefixes.prefix_firsts
    inside = number - 1
    while inside >= 0 and firsts[inside] >= firsts[number]:
        inside -= 1
    return inside


@kernel
def _with_room(listed: ListedDocs, size: int) -> ListedDocs:
    """Return the documents in arrays that hold at least this many."""
    size += len(listed.docs)
    return ListedDocs(grown(listed.docs, size), grown(listed.numbers, size))


@kernel
def _descend(
    descent: _Descent,
    prefix: int,
    num_wanted: int,
    listed: ListedDocs,
    num_listed: int,
    num_readings: int,
) -> tuple[ListedDocs, int, int]:
    """Determine the documents in which to read each term of a prefix list.

    Args:
        descent: at its beginning.
        prefix: the number of the prefix list to begin with.
        num_wanted: how many of the listed documents, the first ones, are wanted.
        listed: documents; those of each prefix are appended.
        num_listed: how many there are.
        num_readings: how many there are before.

    Returns:
        (`listed`, in longer arrays if they were full; the new `num_listed` and `num_readings`).
    """
    # Taken out of the group once: each time counts references, as this kernel makes arrays.
    lists, num_terms, prefixes, _, opened, _ = descent
    firsts, lasts = prefixes
    depth = int64(-1)
    # Lists are numbered so that one comes after those of longer prefixes inside it. Walking
    # numbers downwards therefore visits a prefix before its extensions (a preorder).
    number: Any = int64(prefix)
    while number >= 0 and firsts[number] >= firsts[prefix]:
        first = int64(firsts[number])
        last = int64(lasts[number])
        depth, num_readings = _close_lists(descent, first, depth, num_readings)
        if depth + 1 == _DEPTH_MAX:
            # Too deep to narrow any further: its terms are read with the shorter prefix.
            number -= 1
            continue
        start = int64(0)
        end = int64(num_wanted)
        if depth >= 0:
            # The enclosing list's terms after this prefix are in no longer one (those were visited
            # before): read them among all of the enclosing list's documents.
            num_readings = _read_rest(descent, depth, last, num_readings)
            opened.unread_ends[depth] = first
            start = opened.starts[depth]
            end = opened.ends[depth]
        # Keep those of the enclosing list's documents that this one has: at most as many.
        if num_listed + end - start > len(listed.docs):
            listed = _with_room(listed, num_listed + end - start)
        count = _select_docs(
            lists,
            num_terms + number,
            ListedDocs(listed.docs[start:end], listed.numbers[start:end]),
            ListedDocs(listed.docs[num_listed:], listed.numbers[num_listed:]),
        )
        if count == 0:  # no document has the prefix, nor a longer one
            number = _skip_inside(prefixes, number)
            continue
        depth += 1
        _open_list(opened, depth, number, last, num_listed, num_listed + count)
        num_listed += count
        number -= 1
    _, num_readings = _close_lists(descent, -1, depth, num_readings)
    return listed, num_listed, num_readings


@kernel
def find_readings(
    lists: PostingLists, num_terms: int, prefixes: PrefixRanges, terms: U32Array, wanted: U32Array
) -> tuple[Readings, int, ListedDocs]:
    """Determine the documents in which to read each term, for terms and prefix lists.

    Args:
        lists: of the segment.
        num_terms: of its vocabulary; ordinals from here on are prefix lists.
        prefixes: the term ranges of these.
        terms: ordinals.
        wanted: documents, ascending.

    Returns:
        The readings; how many there are; the listed documents, with their positions in `wanted`.
    """
    readings = _room_for_readings(_num_readings_max(num_terms, prefixes, terms))
    num_readings = int64(0)
    opened = _empty_stack()
    # All wanted documents are listed first, then those of each prefix.
    num_wanted = len(wanted)
    num_listed = int64(num_wanted)
    room = max(4 * num_wanted, _LISTED_MIN)
    listed = ListedDocs(np.empty(room, np.uint32), np.empty(room, np.int64))
    for i in range(num_wanted):
        listed.docs[i] = wanted[i]
        listed.numbers[i] = i
    for origin in range(len(terms)):
        term = int64(terms[origin])
        if term < num_terms:
            num_readings = _put_reading(readings, num_readings, term, origin, 0, num_wanted)
        else:
            listed, num_listed, num_readings = _descend(
                _Descent(lists, num_terms, prefixes, origin, opened, readings),
                term - num_terms,
                num_wanted,
                listed,
                num_listed,
                num_readings,
            )
    return readings, num_readings, listed
