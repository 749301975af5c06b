"""What: a user function that is called with the elements of each epoch and the epoch's number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.lowlevel.sinks.sink import CallSink
from headrace.lowlevel.time import Timestamp
from headrace.sdk.transforms.core.write import Write


class ForeachEpoch(Write):
    """Calls `function(epoch, elements)` on the driver with the elements of each epoch, once the epoch is committed.

    Epochs come in order, with increasing numbers; epochs without elements are left out. After a crash the call for
    the newest epoch may be repeated, with the same elements in the same order. So a function has effects exactly once
    if it stores the number together with its effects, as in one database transaction, and ignores numbers that are not
    greater than the stored one; `WriteToDatabase` does so. The elements of an epoch pass through its commit and the
    driver's memory.

    Args:
        function: The function. An exception ends the run; the epoch stays committed, and the call is repeated when the
            program is restarted.
        with_timestamps: Whether elements are pairs of element and `Timestamp`.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     rows = pipeline | beam.Create(["a", "b"])
    ...     _ = rows | beam.io.ForeachEpoch(lambda epoch, elements: print(epoch, elements))
    1 ['a', 'b']
    """

    def __init__(self, function: Callable[[int, list[object]], object], with_timestamps: bool = False) -> None:
        if not callable(function):
            raise TypeError(f"ForeachEpoch takes a function of epoch and elements, got {function!r:.200}")
        self._function, self._stamped = function, with_timestamps
        super().__init__(CallSink(self._call))

    def _call(self, epoch: int, rows: Sequence[tuple[object, int]]) -> None:
        if self._stamped:
            self._function(epoch, [(element, Timestamp.of_micros(stamp)) for element, stamp in rows])
        else:
            self._function(epoch, [element for element, _ in rows])
