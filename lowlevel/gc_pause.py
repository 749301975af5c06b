"""Less work for the garbage collector: a pause while many values are made, seldom looks, and at new objects only."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector inside the `with` block, for all threads of the process.

    >>> with uncollected():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def new_objects_only() -> Iterator[None]:
    """Let the garbage collector pass over all objects that there are now, until the `with` block ends.

    A collection of everything that a program has loaded takes a tenth of a second, as long as many small epochs. Where
    the program has frozen objects itself, it decides what is passed over: nothing is frozen or unfrozen here.

    >>> with new_objects_only():
    ...     gc.get_freeze_count() > 0
    True
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class SeldomCollections:
    """Lets the garbage collector run seldom while there is a run in this process, however many runs there are.

    A run makes records and state by the ten thousand, hardly any of them in a reference cycle: with the usual
    threshold of 700, collections take a quarter of what a record with a new key costs. A threshold that is higher, or
    0, stays.

    >>> seldom = SeldomCollections()
    >>> before = gc.get_threshold()
    >>> with seldom.during_run(), seldom.during_run():
    ...     gc.get_threshold()[0]
    10000
    >>> gc.get_threshold() == before
    True
    """

    _THRESHOLD = 10_000
    """A tenth of the collections; with 200,000, as in workers of Spark, a few hundredths of the time are gained."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._before = self._during = gc.get_threshold()

    @contextmanager
    def during_run(self) -> Iterator[None]:
        """Raise the threshold inside the `with` block; the last of several blocks restores it."""
        with self._lock:
            self._runs += 1
            if self._runs == 1:
                self._before = self._during = gc.get_threshold()
                if 0 < self._before[0] < self._THRESHOLD:
                    self._during = (self._THRESHOLD, *self._before[1:])
                gc.set_threshold(*self._during)
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                # What the program has set meanwhile stays.
                if self._runs == 0 and gc.get_threshold() == self._during:
                    gc.set_threshold(*self._before)


SELDOM_COLLECTIONS = SeldomCollections()
"""That of this process."""
