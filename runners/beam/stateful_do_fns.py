"""What: Beam's DoFns with state and timers, whose state is that of Headrace's stateful steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import apache_beam
from apache_beam.coders import Coder as BeamCoder
from apache_beam.transforms import userstate as beam
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.runners.beam.combine_fns import BeamCombineFn
from headrace.runners.beam.do_fns import BeamDoFn
from headrace.runners.beam.windows import to_beam
from headrace.sdk.functions.arguments import Arguments, Constant, Given, Source, StateArgument, TimerArgument
from headrace.sdk.functions.declared_state import AnySpec, Callback, DeclaredState
from headrace.sdk.model.time_domain import TimeDomain
from headrace.sdk.model.windowed_value import WindowedValue
from headrace.sdk.userstate.bag import BagState, BagStateSpec
from headrace.sdk.userstate.combining_value import CombiningValueStateSpec
from headrace.sdk.userstate.ordered_list import OrderedListState, OrderedListStateSpec
from headrace.sdk.userstate.set_state import SetStateSpec
from headrace.sdk.userstate.state_spec import StateSpec
from headrace.sdk.userstate.timer_spec import TimerSpec
from headrace.sdk.userstate.user_timer import UserTimer
from headrace.sdk.userstate.value import ReadModifyWriteStateSpec
from headrace.sdk.windows import BoundedWindow

_KINDS: dict[type, type[StateSpec[Any]]] = {
    beam.ReadModifyWriteStateSpec: ReadModifyWriteStateSpec,
    beam.BagStateSpec: BagStateSpec,
    beam.SetStateSpec: SetStateSpec,
    beam.OrderedListStateSpec: OrderedListStateSpec,
}
_DOMAINS = {beam.TimeDomain.WATERMARK: TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME: TimeDomain.REAL_TIME}


@named("BeamStateCoder")
class StateCoder:
    """Beam's coder of the values of a state."""

    def __init__(self, coder: BeamCoder) -> None:
        self._coder = coder

    def encode(self, value: object) -> bytes:
        """The bytes of Beam's coder."""
        return cast(bytes, self._coder.encode(value))

    def decode(self, data: bytes) -> object:
        """The value of the bytes."""
        return cast(object, self._coder.decode(data))

    def __repr__(self) -> str:
        # The name of the coder in fingerprints.
        return f"BeamStateCoder({self._coder!r})"


def _declarations(fn: apache_beam.DoFn) -> tuple[list[beam.StateSpec], list[beam.TimerSpec]]:
    """The states and the timers of a DoFn, each in order of names."""
    states, timers = beam.get_dofn_specs(fn)
    return sorted(states, key=lambda spec: str(spec.name)), sorted(timers, key=lambda spec: str(spec.name))


def _spec_of(spec: beam.StateSpec | beam.TimerSpec) -> AnySpec:
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


class _Timer(beam.BaseTimer):  # type: ignore[misc]  # Beam's types are not read
    """A timer that takes Beam's timestamps.

    Args:
        timer: Headrace's timer.
        output: Output timestamp with which the timer is set, or a later one if that is needed, microseconds UTC; None
            for the timer's default.
    """

    def __init__(self, timer: UserTimer, output: int | None = None) -> None:
        self._timer, self._output = timer, output

    def set(self, timestamp: object, dynamic_timer_tag: str = "") -> None:
        """Set the timer."""
        output = None if self._output is None else Timestamp(micros=max(self._output, self._timer.least_output))
        self._timer.set(_of_beam(BeamTimestamp.of(timestamp)), dynamic_timer_tag, output)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Clear the timer."""
        self._timer.clear(dynamic_timer_tag)


def _of_beam(timestamp: object) -> Timestamp:
    return Timestamp.of_micros(BeamTimestamp.of(timestamp).micros)


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
    ) -> _Timer:
        """The timer of a declaration."""
        return cast(_Timer, self.timers[timer_spec.name])


@named("BeamStatefulDoFn")
class BeamStatefulDoFn(BeamDoFn):
    """A DoFn of Beam's SDK with state or timers; see `BeamDoFn`.

    Args:
        keys: Coder with which the keys of the input are encoded; None if they are as the program has them.
        is_bounded: Whether the input has an end. As in Beam, its end does not keep processing-time timers from firing.
    """

    def __init__(self, fn: apache_beam.DoFn, *rest: Any, keys: BeamCoder | None, is_bounded: bool) -> None:
        super().__init__(fn, *rest)
        self._states, self._timers = _declarations(fn)
        self._keys, self._is_bounded = keys, is_bounded

    def declared(self, sides: Iterable[Source]) -> tuple[Arguments, DeclaredState]:
        """Sources of the arguments of `process`, and the state that the engine keeps.

        Args:
            sides: Sources of side values.
        """
        specs = [_spec_of(spec) for spec in (*self._states, *self._timers)]
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
        keys = None if self._keys is None else repr(self._keys)
        return process, DeclaredState(callbacks, wall, tuple(specs), keys, self._is_bounded)

    def setup(self) -> None:
        """See `DoFn`."""
        # Beam knows the declarations by identity, and those of the unpickled DoFn are others.
        self._states, self._timers = _declarations(self._fn)
        self._context = _StateContext()
        self._decoded: tuple[object, object] = (None, None)
        super().setup()

    def _runner_options(self) -> dict[str, object]:
        return {"user_state_context": self._context}

    def process(self, element: object, value: WindowedValue, *cells: object) -> Iterable[object] | None:  # type: ignore[override]
        """Outputs of an element."""
        count = len(self._states) + len(self._timers)
        self._turn_to(cells[:count])
        if self._keys is not None:
            key, content = cast("tuple[object, object]", element)
            element = self._key(key), content
        return super().process(element, *cells[count:], value=value)

    def fire(
        self, place: int, key: object, window: BoundedWindow, timestamp: Timestamp, tag: str, *cells: object
    ) -> Iterable[object] | None:
        """Outputs of a timer, at the time to which it was set, in processing time as well."""
        spec, beam_window = self._timers[place], to_beam(window)
        is_wall = spec.time_domain == beam.TimeDomain.REAL_TIME
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
            spec.name: _VIEWS.get(type(cell), _as_it_is)(cell)
            for spec, cell in zip(self._states, cells[:count], strict=True)
        }
        self._context.timers = {
            spec.name: _Timer(cast(UserTimer, cell), output if spec.time_domain == beam.TimeDomain.REAL_TIME else None)
            for spec, cell in zip(self._timers, cells[count:], strict=True)
        }


_NEVER = BeamTimestamp(micros=-(1 << 63))
"""A timestamp that no output has."""
_VIEWS: dict[type, Callable[[Any], object]] = {BagState: _Bag, OrderedListState: _OrderedList}


def _as_it_is(state: object) -> object:
    return state
