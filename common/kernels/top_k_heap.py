"""Top k: a min-heap of the k greatest keys so far.

To select the k greatest of n keys, fill the heap with k copies of the least possible key. Then, for
each key above the heap's top, call `replace_least`; at the end the k-th greatest is at the top. Few
of many keys are above it, so a pass costs about 1 ns a key. (Williams: Algorithm 232, heapsort,
CACM 1964.)
"""

from __future__ import annotations

from common.kernels.decorator import kernel
from common.kernels.types import I64Array


@kernel(inline=True, allocates=False)
def replace_least(heap: I64Array, size: int, key: int) -> None:
    """Replace the least key of a heap.

    Args:
        heap: its first `size` keys are a min-heap: no key i is below its parent, key (i - 1) // 2.
        size: keys in the heap, at least 1.
        key: takes the place of heap[0]; not below it.
    """
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key
