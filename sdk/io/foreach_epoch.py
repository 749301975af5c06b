"""What: each epoch's elements for a function of the user's, with the number that makes its effects happen once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.lowlevel.sink import CallSink
from headrace.lowlevel.time import Timestamp
from headrace.sdk.transforms.write import Write


class ForeachEpoch(Write):
    """Calls `function(epoch, elements)` on the driver with the elements of each epoch, once the epoch is committed.

    Epochs come in order, each with a greater number; one without elements is left out. After a crash the newest one may
    come again, with the same number and the same elements in the same order. So a function that keeps the number
    together with its effects, as in one transaction of a database, and leaves out what is not greater, has effects
    exactly once (`examples/postgres.py`). The elements of an epoch pass through its commit and the driver's memory.

    Args:
        function: What is called. What it raises ends the run; the epoch is committed, and comes again when the program
            is started again.
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
