"""What: declarations of state and timers of Beam's SDK as Headrace's; states and timers with Beam's methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import apache_beam
from apache_beam.coders import Coder as BeamCoder
from apache_beam.coders import FastPrimitivesCoder, IterableCoder, ListCoder, PickleCoder, TupleCoder
from apache_beam.coders.coder_impl import CallbackCoderImpl
from apache_beam.transforms import userstate as beam
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp

from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.runners.beam.beam_private import fallback_coder
from headrace.runners.beam.functions.combine_fns import BeamCombineFn
from headrace.sdk.functions.declared_state import AnySpec
from headrace.sdk.userstate.collection_states import (
    BagState,
    BagStateSpec,
    OrderedListState,
    OrderedListStateSpec,
    SetStateSpec,
)
from headrace.sdk.userstate.state_spec import StateSpec
from headrace.sdk.userstate.timers import TimeDomain, TimerSpec, UserTimer
from headrace.sdk.userstate.value_states import CombiningValueStateSpec, ReadModifyWriteStateSpec

_KINDS: dict[type, type[StateSpec[Any]]] = {
    beam.ReadModifyWriteStateSpec: ReadModifyWriteStateSpec,
    beam.BagStateSpec: BagStateSpec,
    beam.SetStateSpec: SetStateSpec,
    beam.OrderedListStateSpec: OrderedListStateSpec,
}
_DOMAINS = {beam.TimeDomain.WATERMARK: TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME: TimeDomain.REAL_TIME}


class _FindingPickleCoder(PickleCoder):  # type: ignore[misc]  # Beam's types are not read
    """Beam's coder of pickled values; it finds classes of the program that have another module than when stored."""

    def _create_impl(self) -> object:
        return CallbackCoderImpl(super()._create_impl().encode, loads)


def finding_classes(coder: BeamCoder) -> BeamCoder:
    """A coder of the same bytes that finds classes of pickled values wherever the program has them now.

    >>> from apache_beam.coders import PickleCoder, StrUtf8Coder, TupleCoder
    >>> coder = finding_classes(TupleCoder([StrUtf8Coder(), PickleCoder()]))
    >>> coder.decode(coder.encode(("a", {1, 2})))
    ('a', {1, 2})
    """
    if type(coder) is PickleCoder:
        return _FindingPickleCoder()
    if type(coder) is FastPrimitivesCoder:
        return FastPrimitivesCoder(finding_classes(fallback_coder(coder)))
    if type(coder) is TupleCoder:
        return TupleCoder(map(finding_classes, coder.coders()))
    if type(coder) in (IterableCoder, ListCoder):
        return type(coder)(finding_classes(coder.value_coder()))
    return coder


@named("BeamStateCoder")
class StateCoder:
    """Beam's coder of the values of a state."""

    def __init__(self, coder: BeamCoder) -> None:
        self._coder, self._decoder = coder, finding_classes(coder)

    def encode(self, value: object) -> bytes:
        """The bytes of Beam's coder."""
        return cast(bytes, self._coder.encode(value))

    def decode(self, data: bytes) -> object:
        """The value of the bytes. Raises `StoredClassError` if a class that is pickled in them is gone or changed."""
        return cast(object, self._decoder.decode(data))

    def __repr__(self) -> str:
        # The name of the coder in fingerprints.
        return f"BeamStateCoder({self._coder!r})"


def declarations(fn: apache_beam.DoFn) -> tuple[list[beam.StateSpec], list[beam.TimerSpec]]:
    """The states and the timers of a DoFn, each in order of names."""
    states, timers = beam.get_dofn_specs(fn)
    return sorted(states, key=lambda spec: str(spec.name)), sorted(timers, key=lambda spec: str(spec.name))


def spec_of(spec: beam.StateSpec | beam.TimerSpec) -> AnySpec:
    """Headrace's declaration of a state or a timer for one of Beam's."""
    if isinstance(spec, beam.TimerSpec):
        return TimerSpec(spec.name, _DOMAINS[spec.time_domain])
    if isinstance(spec, beam.CombiningValueStateSpec):
        return CombiningValueStateSpec(spec.name, StateCoder(spec.coder), BeamCombineFn(spec.combine_fn))
    return cast(AnySpec, _KINDS[type(spec)](spec.name, StateCoder(spec.coder)))


class _Values:
    """The values of a bag: iterable any number of times, and an iterator, as with one or the other runner of Beam's."""

    def __init__(self, values: list[object]) -> None:
        self._values, self._rest = values, iter(values)

    def __iter__(self) -> Iterator[object]:
        return iter(self._values)

    def __next__(self) -> object:
        return next(self._rest)


class _Bag:
    """A bag whose contents are read as Beam's are."""

    def __init__(self, state: BagState) -> None:
        self._state = state
        self.add, self.clear = state.add, state.clear

    def read(self) -> _Values:
        return _Values(self._state.read())


class _OrderedList:
    """An ordered list with Beam's timestamps."""

    def __init__(self, state: OrderedListState) -> None:
        self._state = state

    def add(self, value: tuple[BeamTimestamp, object]) -> None:
        time, item = value
        self._state.add((_of_beam(time), item))

    def read(self) -> Iterator[tuple[BeamTimestamp, object]]:
        return iter([(BeamTimestamp(micros=time.micros), item) for time, item in self._state.read()])

    def read_range(self, least: BeamTimestamp, limit: BeamTimestamp) -> Iterator[tuple[BeamTimestamp, object]]:
        pairs = self._state.read_range(_of_beam(least), _of_beam(limit))
        return iter([(BeamTimestamp(micros=time.micros), item) for time, item in pairs])

    def clear_range(self, least: BeamTimestamp, limit: BeamTimestamp) -> None:
        self._state.clear_range(_of_beam(least), _of_beam(limit))

    def clear(self) -> None:
        self._state.clear()


class BeamTimer(beam.BaseTimer):  # type: ignore[misc]  # Beam's types are not read
    """A timer that takes Beam's timestamps.

    Args:
        timer: Headrace's timer.
        output: Output timestamp with which the timer is set, or a later one if that is needed, microseconds UTC; None
            for the timer's default.
    """

    def __init__(self, timer: UserTimer, output: int | None = None) -> None:
        self._timer, self._output = timer, output

    def set(self, timestamp: object, dynamic_timer_tag: str = "") -> None:
        """Set the timer; one for event time waits until its window closes at most, as `setRelative` of Beam's Java SDK.

        Beam's Python SDK has no such method, so its programs add a duration to the time of an element.
        """
        output = None if self._output is None else Timestamp(micros=max(self._output, self._timer.least_output))
        at, timer = _of_beam(timestamp), self._timer
        if at.micros > timer.latest:
            at = Timestamp.of_micros(timer.latest)
        timer.set(at, dynamic_timer_tag, output)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Clear the timer."""
        self._timer.clear(dynamic_timer_tag)


def _of_beam(timestamp: Any) -> Timestamp:
    at = timestamp if timestamp.__class__ is BeamTimestamp else BeamTimestamp.of(timestamp)
    return Timestamp.of_micros(at.micros)


_VIEWS: dict[type, Callable[[Any], object]] = {BagState: _Bag, OrderedListState: _OrderedList}


def has_view(spec: AnySpec) -> bool:
    """Whether states of a declaration need a view to have Beam's methods."""
    return isinstance(spec, (BagStateSpec, OrderedListStateSpec))


def view_of(state: object) -> object:
    """The state with Beam's methods; most states have them."""
    make = _VIEWS.get(type(state))
    return state if make is None else make(state)
