"""Top k: a min-heap of the k greatest keys so far.

To select the k best of n, fill a heap with k least keys and offer it one key after the other: the
k-th greatest is then at its top. Of many keys, few are greater than the top, so a pass costs about
1 ns a key. (Williams: Algorithm 232, heapsort, CACM 1964.)
"""

from __future__ import annotations

from common.kernels.decorator import kernel
from common.kernels.types import I64Array


@kernel(inline=True, allocates=False)
def replace_least(heap: I64Array, size: int, key: int) -> None:
    """Put a key in the place of the least one.

    Args:
        heap: its first `size` keys are a min-heap: key i is at least its parent, key (i - 1) // 2.
        size: at least 1.
        key: at least the least.
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
