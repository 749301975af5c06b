"""What: Beam's DoFns with state and timers, whose state is that of Headrace's stateful steps.

Declarations of state and timers become Headrace's; user code sees states and timers with Beam's methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import apache_beam
from apache_beam.coders import Coder as BeamCoder
from apache_beam.coders import (
    FastPrimitivesCoder,
    IterableCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    PickleCoder,
    TupleCoder,
    TupleSequenceCoder,
)
from apache_beam.coders.coder_impl import CallbackCoderImpl
from apache_beam.coders.coders import LengthPrefixCoder
from apache_beam.transforms import userstate as beam
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.runners.beam.beam_private import component_coders, fallback_coder, map_coders
from headrace.runners.beam.functions.combine_fns import BeamCombineFn
from headrace.runners.beam.functions.do_fns import BeamDoFn
from headrace.runners.beam.functions.keys import BeamKeyCoder
from headrace.runners.beam.functions.own_coders import OwnCoder
from headrace.runners.beam.windowings import to_beam
from headrace.sdk.functions.arguments import Arguments, Constant, Given, Source, StateArgument, TimerArgument
from headrace.sdk.functions.declarations import AnySpec, Callback, DeclaredState
from headrace.sdk.model.special_outputs import WindowedValue
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
from headrace.sdk.windows import BoundedWindow

_KINDS: dict[type, type[StateSpec[Any]]] = {
    beam.ReadModifyWriteStateSpec: ReadModifyWriteStateSpec,
    beam.BagStateSpec: BagStateSpec,
    beam.SetStateSpec: SetStateSpec,
    beam.OrderedListStateSpec: OrderedListStateSpec,
}
_DOMAINS = {beam.TimeDomain.WATERMARK: TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME: TimeDomain.REAL_TIME}


class _StoringPickleCoder(PickleCoder):  # type: ignore[misc]  # Beam's types are not read
    """Beam's coder of pickled values, with members of enumerations by name; see `lowlevel.class_lookup`."""

    def _create_impl(self) -> object:
        return CallbackCoderImpl(dumps, loads)


def storing(coder: BeamCoder) -> BeamCoder:
    """A coder of values that outlive the program's classes, in the form of another coder and with its containers.

    Pickled values have members of enumerations by name, say the fields of named tuples and dataclasses, and are read
    with the classes that the program has now, wherever they are. What the other coder has encoded is read as well.

    >>> from apache_beam.coders import PickleCoder, StrUtf8Coder, TupleCoder
    >>> coder = TupleCoder([StrUtf8Coder(), PickleCoder()])
    >>> storing(coder).decode(storing(coder).encode(("a", {1, 2})))
    ('a', {1, 2})
    >>> storing(coder).decode(coder.encode(("a", {1, 2})))
    ('a', {1, 2})
    """
    kind = type(coder)
    if kind is PickleCoder:
        return _StoringPickleCoder()
    if kind is FastPrimitivesCoder:
        return FastPrimitivesCoder(storing(fallback_coder(coder)))
    if kind is TupleCoder:
        return TupleCoder(map(storing, coder.coders()))
    if kind is MapCoder:
        return MapCoder(*map(storing, map_coders(coder)))
    if kind in _OF_ONE:
        return kind(*map(storing, component_coders(coder)))
    return coder


_OF_ONE = (IterableCoder, LengthPrefixCoder, ListCoder, NullableCoder, TupleSequenceCoder)
"""Coders that are made of one other coder."""


@named("BeamStateCoder")
class StateCoder:
    """Beam's coder of the values of a state; see `storing`."""

    def __init__(self, coder: BeamCoder) -> None:
        self._coder, self._storing = coder, storing(coder)

    def encode(self, value: object) -> bytes:
        """The value as bytes."""
        return cast(bytes, self._storing.encode(value))

    def decode(self, data: bytes) -> object:
        """The value of the bytes. Raises `StoredClassError` if a class that is pickled in them is gone or changed."""
        return cast(object, self._storing.decode(data))

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


class _StateContext(beam.UserStateContext):  # type: ignore[misc]  # Beam's types are not read
    """State and timers of the key and window that are being processed."""

    def __init__(self) -> None:
        self.states: Mapping[str, object] = {}
        self.timers: Mapping[str, object] = {}

    def get_state(self, state_spec: beam.StateSpec, key: object, window: object) -> object:
        """The state of a declaration."""
        return self.states[state_spec.name]

    def get_timer(
        self, timer_spec: beam.TimerSpec, key: object, window: object, timestamp: object, pane: object
    ) -> BeamTimer:
        """The timer of a declaration."""
        return cast(BeamTimer, self.timers[timer_spec.name])


@named("BeamStatefulDoFn")
class BeamStatefulDoFn(BeamDoFn):
    """A DoFn of Beam's SDK with state or timers; see `BeamDoFn`.

    Args:
        keys: Coder with which the keys of the input are encoded; None if they are as the program has them.
        values: Coder with which its values are encoded; None if they are as the program has them.
    """

    def __init__(self, fn: apache_beam.DoFn, *rest: Any, keys: BeamKeyCoder | None, values: OwnCoder | None) -> None:
        super().__init__(fn, *rest)
        self._states, self._timers = declarations(fn)
        self._keys, self._values = keys, values

    def declared(self, sides: Iterable[Source]) -> tuple[Arguments, DeclaredState]:
        """Sources of the arguments of `process`, and the state that the engine keeps.

        Args:
            sides: Sources of side values.
        """
        specs = [spec_of(spec) for spec in (*self._states, *self._timers)]
        cells: list[Source] = [
            TimerArgument(spec) if isinstance(spec, TimerSpec) else StateArgument(spec) for spec in specs
        ]
        process = Arguments((Given.ELEMENT, Given.WINDOWED_VALUE, *cells, *sides))
        fired = [Given.KEY, Given.WINDOW, Given.TIMESTAMP, Given.DYNAMIC_TIMER_TAG, *cells]
        timers = [spec for spec in specs if isinstance(spec, TimerSpec)]
        callbacks = {
            spec.name: Callback("fire", Arguments((Constant(place), *fired)), spec) for place, spec in enumerate(timers)
        }
        wall = any(spec.time_domain is TimeDomain.REAL_TIME for spec in timers)
        return process, DeclaredState(callbacks, wall, tuple(specs))

    def setup(self) -> None:
        """See `DoFn`."""
        # Beam knows the declarations by identity, and those of the unpickled DoFn are others.
        self._states, self._timers = declarations(self._fn)
        self._context = _StateContext()
        self._decoded: tuple[object, object] = (None, None)
        super().setup()

    def _runner_options(self) -> dict[str, object]:
        return {"user_state_context": self._context}

    def process(  # type: ignore[override]  # states and timers come before side values
        self, element: object, value: WindowedValue, *cells: object
    ) -> Iterable[object] | None:
        """Outputs of an element."""
        count = len(self._states) + len(self._timers)
        self._turn_to(cells[:count])
        if self._keys is not None or self._values is not None:
            key, content = cast("tuple[object, object]", element)
            element = self._key(key), content if self._values is None else self._values.decode(content)
        return super().process(element, *cells[count:], value=value)

    def fire(
        self, place: int, key: object, window: BoundedWindow, timestamp: Timestamp, tag: str, *cells: object
    ) -> Iterable[object] | None:
        """Outputs of a timer, at the time to which it was set, in processing time as well."""
        spec, beam_window = self._timers[place], to_beam(window)
        is_wall = _is_wall(spec)
        self._turn_to(cells, min(timestamp, window.max_timestamp()).micros if is_wall else None)
        given = BeamValue(None, BeamTimestamp(micros=timestamp.micros), (beam_window,))
        self._runner.process_user_timer(spec, self._key(key), beam_window, given.timestamp, given.pane_info, tag)
        # Headrace's timer in processing time has the timestamp of the element that set it.
        return self._taken(BeamValue(None, _NEVER, ()) if is_wall else given)

    def _key(self, key: object) -> object:
        """The key as the program has it."""
        if self._keys is None:
            return key
        if self._decoded[0] != key:
            self._decoded = key, self._keys.decode(key)
        return self._decoded[1]

    def _turn_to(self, cells: tuple[object, ...], output: int | None = None) -> None:
        """Give user code the state and timers of a key and window.

        Args:
            cells: States, then timers.
            output: Output timestamp of timers in processing time that are set, microseconds UTC; None for the default.
        """
        count = len(self._states)
        self._context.states = {
            spec.name: view_of(cell) for spec, cell in zip(self._states, cells[:count], strict=True)
        }
        self._context.timers = {
            spec.name: BeamTimer(cast(UserTimer, cell), output if _is_wall(spec) else None)
            for spec, cell in zip(self._timers, cells[count:], strict=True)
        }


def _is_wall(spec: beam.TimerSpec) -> bool:
    """Whether a timer is one in processing time."""
    return bool(spec.time_domain == beam.TimeDomain.REAL_TIME)


_NEVER = BeamTimestamp(micros=-(1 << 63))
"""A timestamp that no output has."""
