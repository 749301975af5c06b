"""What: removal of duplicates within a period (`apache_beam.transforms.deduplicate`)."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.lowlevel.time import Duration, DurationTypes
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import Map, ParDo
from headrace.sdk.userstate.timers import TimeDomain, TimerSpec, UserTimer, on_timer
from headrace.sdk.userstate.value_states import ReadModifyWriteState, ReadModifyWriteStateSpec
from headrace.sdk.windows.window_fn import positive


class DeduplicatePerKey(PTransform[PCollection[object], PCollection[object]]):
    """Drops pairs (key, value) that arrive within a period after an emitted pair of the same key and window.

    Args:
        processing_time_duration: The period in processing time, in seconds or as a `Duration`; None for no bound.
        event_time_duration: The period in event time, in seconds or as a `Duration`. If both periods are given, the
            first to end counts.

    Raises:
        ValueError: Neither period is given, or a period is not positive.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     pairs = pipeline | beam.Create([("tea", 1), ("tea", 2), ("jam", 3)])
    ...     once = pairs | DeduplicatePerKey(event_time_duration=60)
    ...     _ = once | beam.combiners.Count.Globally() | beam.Map(print)
    2
    """

    def __init__(
        self,
        processing_time_duration: DurationTypes | None = None,
        event_time_duration: DurationTypes | None = None,
    ) -> None:
        super().__init__()
        if processing_time_duration is None and event_time_duration is None:
            raise ValueError(f"{type(self).__name__} takes processing_time_duration or event_time_duration, in seconds")
        for name, given in (("processing", processing_time_duration), ("event", event_time_duration)):
            if given is not None:
                positive(f"{type(self).__name__}: {name}_time_duration", Duration.of(given).micros)
        self._real, self._event = processing_time_duration, event_time_duration

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of the pairs that are not dropped, made by a step with state."""
        return inputs | "Deduplicate" >> ParDo(_FirstOnly(self._real, self._event))


class Deduplicate(DeduplicatePerKey):
    """Drops elements that arrive within a period after an equal element was emitted; elements become keys.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     once = pipeline | beam.Create(["tea", "tea"]) | Deduplicate(event_time_duration=60)
    ...     _ = once | beam.Map(print)
    tea
    """

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of the elements that are not dropped; each element becomes a key."""
        pairs = inputs | "Key" >> Map(_as_key)
        return super().expand(pairs) | "Element" >> Map(_key_of)


def _as_key(element: object) -> tuple[object, None]:
    return element, None


def _key_of(pair: tuple[object, object]) -> object:
    return pair[0]


class _FirstOnly(DoFn):
    SEEN = ReadModifyWriteStateSpec("seen")
    REAL = TimerSpec("processing_timer", TimeDomain.REAL_TIME)
    EVENT = TimerSpec("event_timer", TimeDomain.WATERMARK)

    def __init__(self, real: DurationTypes | None, event: DurationTypes | None) -> None:
        self._real, self._event = real, event

    def process(
        self,
        pair: object,
        seen: ReadModifyWriteState = DoFn.StateParam(SEEN),
        real: UserTimer = DoFn.TimerParam(REAL),
        event: UserTimer = DoFn.TimerParam(EVENT),
    ) -> Iterable[object] | None:
        """Emit the pair, unless a pair of the key was emitted within the period."""
        if seen.read():
            return None
        seen.write(True)
        if self._real is not None:
            real.set_relative(self._real)
        if self._event is not None:
            event.set_relative(self._event)
        return [pair]

    @on_timer(REAL)
    def on_real_time(
        self, seen: ReadModifyWriteState = DoFn.StateParam(SEEN), event: UserTimer = DoFn.TimerParam(EVENT)
    ) -> None:
        """Forget the key, as its period is over."""
        seen.clear()
        event.clear()

    @on_timer(EVENT)
    def on_event_time(
        self, seen: ReadModifyWriteState = DoFn.StateParam(SEEN), real: UserTimer = DoFn.TimerParam(REAL)
    ) -> None:
        """Forget the key, as its period is over."""
        seen.clear()
        real.clear()
