"""Allocator settings of worker processes, and the rule by which freed memory is returned to the system.

Most of the memory of a task with many records is garbage when the task ends. glibc keeps freed memory that is not at
the end of its heap, and Arrow's default allocator keeps freed memory for later use. Each worker would therefore stay as
large as its largest task, and memory freed in one allocator could not be used by the other.
"""

from __future__ import annotations

import pyarrow as pa

from headrace.runners.spark.memory.system import c_function, own_bytes

_GROWN = 64 << 20
"""Bytes by which a process may grow before it returns freed memory to the system."""


def settle() -> None:
    """Let Arrow allocate by the C library, so that memory freed by either can be reused by the other."""
    pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Return freed memory to the system if the C library can do so; this takes about a millisecond for 10 MiB."""
    if (trim := c_function("malloc_trim")) is not None:
        trim(0)


class Trim:
    """Returns memory to the system after large tasks; small tasks reuse the memory that the task before them freed.

    >>> trim = Trim()
    >>> trim.task_ends()
    """

    def __init__(self) -> None:
        self._least = 0

    def task_ends(self) -> None:
        """Return freed memory if the process has grown by more than 64 MiB since it was smallest."""
        own = own_bytes()
        if own > self._least + _GROWN:
            give_back()
            own = self._least = own_bytes()
        self._least = min(self._least, own)


TRIM = Trim()
"""The `Trim` of this worker process."""
