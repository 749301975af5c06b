"""What: elements that came a short while before are left out (`apache_beam.transforms.deduplicate`)."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.lowlevel.time import Duration, DurationTypes
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.stateful.timer import UserTimer
from headrace.sdk.stateful.timerspec import TimerSpec, on_timer
from headrace.sdk.stateful.value import ReadModifyWriteState, ReadModifyWriteStateSpec
from headrace.sdk.timedomain import TimeDomain
from headrace.sdk.transforms.element import DoFn, Map, ParDo
from headrace.sdk.windows.function import positive


class DeduplicatePerKey(PTransform[PCollection[object], PCollection[object]]):
    """Of the pairs (key, value) of a key and window those that come within a while of one that was put out are dropped.

    Args:
        processing_time_duration: The while in real time, in seconds or as a `Duration`; None for no bound.
        event_time_duration: The while in event time. Of two given, the shorter one counts.

    Raises:
        ValueError: Neither is given.
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
        """A step with state."""
        return inputs | "Deduplicate" >> ParDo(_FirstOnly(self._real, self._event))


class Deduplicate(DeduplicatePerKey):
    """The same for elements of any kind that can be keys: equal ones within a while become one."""

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """Each element as a key."""
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
        """The pair, if there was none lately."""
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
        """The while is over."""
        seen.clear()
        event.clear()

    @on_timer(EVENT)
    def on_event_time(
        self, seen: ReadModifyWriteState = DoFn.StateParam(SEEN), real: UserTimer = DoFn.TimerParam(REAL)
    ) -> None:
        """The while is over."""
        seen.clear()
        real.clear()
