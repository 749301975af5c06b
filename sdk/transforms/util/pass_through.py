"""What: transforms that pass elements on unchanged: `LogElements`, `Tee` and `WaitOn`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.lowlevel.time import MIN_TIMESTAMP, Timestamp
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform, ptransform_fn
from headrace.sdk.graph.pvalue import Collection, PCollection
from headrace.sdk.graph.side_inputs import AsIter
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import FlatMap, Map
from headrace.sdk.windows import GlobalWindow, IntervalWindow

_log = logging.getLogger("headrace.sdk.transforms.util.log_elements")
Consumer = PTransform[PCollection[object], object] | Callable[[PCollection[object]], object]


class LogElements(PTransform[PCollection[object], PCollection[object]]):
    """Writes each element on the worker that processes the element, and passes the element on unchanged.

    Args:
        label: The step's label.
        prefix: Text before each element.
        with_timestamp: Whether the element's timestamp is written too.
        with_window: Whether the element's window is written too.
        level: The log level, such as `logging.INFO`; None to print to standard output.
        with_pane_info: Whether the element's pane is written too.
        use_epoch_time: Whether times are written as whole seconds since 1970 UTC instead of RFC 3339.

    >>> from headrace.sdk.pipeline.pipeline import Pipeline
    >>> from headrace.sdk.transforms.core.create import Create
    >>> with Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | Create(["a"]) | LogElements(prefix="got ")
    got a
    """

    def __init__(
        self,
        label: str | None = None,
        prefix: str = "",
        with_timestamp: bool = False,
        with_window: bool = False,
        level: int | None = None,
        with_pane_info: bool = False,
        use_epoch_time: bool = False,
    ) -> None:
        super().__init__(label)
        self._write = _Write(prefix, with_timestamp, with_window, level, with_pane_info, use_epoch_time)

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of the same elements."""
        look = self._write.in_its_window if self._write.with_window else self._write.anywhere
        return inputs | Map(look)


class _Write:
    """Writes an element; windows are costly to make, so the window is taken only if it is written."""

    def __init__(
        self, prefix: str, with_timestamp: bool, with_window: bool, level: int | None, with_pane: bool, as_epoch: bool
    ) -> None:
        self._prefix, self._with_timestamp, self.with_window = prefix, with_timestamp, with_window
        self._level, self._with_pane, self._as_epoch = level, with_pane, as_epoch

    def anywhere(
        self, element: object, timestamp: Timestamp = DoFn.TimestampParam, pane: PaneInfo = DoFn.PaneInfoParam
    ) -> object:
        return self._written(element, timestamp, None, pane)

    def in_its_window(
        self,
        element: object,
        timestamp: Timestamp = DoFn.TimestampParam,
        window: IntervalWindow = DoFn.WindowParam,
        pane: PaneInfo = DoFn.PaneInfoParam,
    ) -> object:
        return self._written(element, timestamp, window, pane)

    def _written(self, element: object, timestamp: Timestamp, window: IntervalWindow | None, pane: PaneInfo) -> object:
        line = f"{self._prefix}{element}"
        if self._with_timestamp:
            line += f", timestamp={self._time(timestamp)!r}"
        if window is not None:
            line += f", window(start={self._time(window.start)}, end={self._time(window.end)})"
        if self._with_pane:
            line += f", pane_info={pane!r}"
        write: Callable[[str], None] = print if self._level is None else self._to_log
        write(line)
        return element

    def _time(self, timestamp: Timestamp) -> object:
        return timestamp.seconds() if self._as_epoch else _instant(timestamp)

    def _to_log(self, line: str) -> None:
        assert self._level is not None
        _log.log(self._level, "%s", line)


def _instant(timestamp: Timestamp) -> str:
    """An instant as RFC 3339, whose years are 1 to 9999, or as words; of other instants the seconds since 1970."""
    if timestamp.micros == MIN_TIMESTAMP:
        return "the beginning of time"
    if timestamp >= GlobalWindow().end:
        return "the end of time"
    try:
        return timestamp.to_rfc3339()
    except OverflowError:
        return f"{timestamp.seconds()} seconds since 1970"


class Tee(PTransform[PCollection[object], PCollection[object]]):
    """Applies further transforms to its input, and outputs the input itself.

    Args:
        *consumers: Transforms, or functions of a collection, whose outputs are discarded.

    Raises:
        TypeError: A consumer is neither a transform nor a function.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     words = pipeline | beam.Create(["tea"]) | beam.Tee("Shout" >> beam.Map(lambda word: print(word.upper())))
    ...     _ = words | beam.Map(len) | beam.Map(print)
    TEA
    3
    """

    def __init__(self, *consumers: Consumer) -> None:
        super().__init__()
        for consumer in consumers:
            if not callable(consumer) and not isinstance(consumer, PTransform):
                raise TypeError(f"Tee takes transforms and functions of a collection, got {consumer!r:.200}")
        self._consumers = consumers

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """The input itself."""
        for consumer in self._consumers:
            _ = inputs | (consumer if isinstance(consumer, PTransform) else ptransform_fn(consumer)())
        return inputs


class WaitOn(PTransform[Collection, Collection]):
    """Emits each element, unchanged, as soon as the other collections are complete for the element's window.

    Only the watermarks of the other collections count: their elements may be empty. Once a watermark has passed the
    window's end, the steps before that collection have done all their work for the window.

    Args:
        *to_be_waited_on: Collections to wait for.

    Raises:
        TypeError: An argument is not a collection.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     stored = pipeline | "Store" >> beam.Create([1]) | beam.Map(print)
    ...     _ = pipeline | "Tell" >> beam.Create(["stored"]) | beam.WaitOn(stored) | "Say" >> beam.Map(print)
    1
    stored
    """

    def __init__(self, *to_be_waited_on: Collection) -> None:
        super().__init__()
        for other in to_be_waited_on:
            if not isinstance(other, PCollection):
                raise TypeError(f"WaitOn takes collections, got {other!r:.200}")
        self._others = to_be_waited_on

    def expand(self, inputs: Collection) -> Collection:
        """A collection of the same elements; the other collections become empty side inputs."""
        ready = [AsIter(self._nothing_of(other, index)) for index, other in enumerate(self._others)]
        return inputs | "Wait" >> Map(_first, *ready)

    @staticmethod
    def _nothing_of(other: Collection, index: int) -> Collection:
        nothing = other | f"Nothing of {index}" >> FlatMap(_nothing)
        return nothing | f"End of {index}" >> GroupByKey()


def _nothing(element: object) -> tuple[()]:
    return ()


def _first(element: object, *sides: object) -> object:
    return element
