"""Memory of worker processes: how it is asked for, and when it goes back to the system.

What a task of many records needs is mostly garbage when it ends. glibc keeps freed memory that does not lie at the end
of its heap, and Arrow's usual allocator keeps what it has freed for the next time: each worker would stay as large as
its largest task, and kinds of memory that are never needed at once would add up.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from headrace.runners.spark.system import c_function, own_bytes

_ARENA_MAX = -8
"""`M_ARENA_MAX` of mallopt(3)."""
_ARENAS = 2
"""Threads of a worker write files and wait; an arena for each would keep what it once had."""
_GROWN = 64 << 20
"""Bytes by which a process may grow before it is asked what it can give back."""


@cache
def settle() -> None:
    """Once in a worker: Arrow takes its memory where all else does, so that either can use what the other has freed."""
    pa.set_memory_pool(pa.system_memory_pool())
    if (mallopt := c_function("mallopt")) is not None:
        mallopt(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Free memory goes back to the system, where the C library can do that; about a millisecond for 10 MiB."""
    if (trim := c_function("malloc_trim")) is not None:
        trim(0)


class Trim:
    """Gives memory back after tasks that took much; those that take little find again what the one before them freed.

    >>> trim = Trim()
    >>> trim.task_ends()
    """

    def __init__(self) -> None:
        self._least = 0

    def task_ends(self) -> None:
        """Give back what is free if the process is much larger than it was when it had done so last."""
        own = own_bytes()
        if own > self._least + _GROWN:
            give_back()
            own = self._least = own_bytes()
        self._least = min(self._least, own)


TRIM = Trim()
"""Of this process."""
