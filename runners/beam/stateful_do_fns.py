"""What: Beam's DoFns with state and timers, whose state is that of Headrace's stateful steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from headrace.sdk.userstate.bag import BagStateSpec
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
    """A timer that takes Beam's timestamps."""

    def __init__(self, timer: UserTimer) -> None:
        self._timer = timer

    def set(self, timestamp: object, dynamic_timer_tag: str = "") -> None:
        """Set the timer."""
        self._timer.set(_of_beam(BeamTimestamp.of(timestamp)), dynamic_timer_tag)

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
    """A DoFn of Beam's SDK with state or timers; see `BeamDoFn`."""

    def __init__(self, fn: apache_beam.DoFn, *rest: Any) -> None:
        super().__init__(fn, *rest)
        self.key_coder: BeamCoder | None = None
        self._states, self._timers = _declarations(fn)

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
        return process, DeclaredState(callbacks, wall, tuple(specs))

    def setup(self) -> None:
        """See `DoFn`."""
        # Beam knows the declarations by identity, and those of the unpickled DoFn are others.
        self._states, self._timers = _declarations(self._fn)
        self._context = _StateContext()
        super().setup()

    def _runner_options(self) -> dict[str, object]:
        return {"user_state_context": self._context}

    def process(self, element: object, value: WindowedValue, *cells: object) -> Iterable[object] | None:  # type: ignore[override]
        """Outputs of an element."""
        count = len(self._states) + len(self._timers)
        self._turn_to(cells[:count])
        if self.key_coder is not None:
            key, item = cast("tuple[bytes, object]", element)
            element = (self.key_coder.decode(key), item)
        return super().process(element, *cells[count:], value=value)

    def fire(
        self, place: int, key: object, window: BoundedWindow, timestamp: Timestamp, tag: str, *cells: object
    ) -> Iterable[object] | None:
        """Outputs of a timer."""
        self._turn_to(cells)
        if self.key_coder is not None:
            key = self.key_coder.decode(key)
        at, beam_window = BeamTimestamp(micros=timestamp.micros), to_beam(window)
        given = BeamValue(None, at, (beam_window,))
        self._runner.process_user_timer(self._timers[place], key, beam_window, at, given.pane_info, tag)
        return self._taken(given)

    def _turn_to(self, cells: tuple[object, ...]) -> None:
        count = len(self._states)
        self._context.states = {
            spec.name: _OrderedList(cell) if isinstance(cell, OrderedListState) else cell
            for spec, cell in zip(self._states, cells[:count], strict=True)
        }
        self._context.timers = {
            spec.name: _Timer(cast(UserTimer, cell)) for spec, cell in zip(self._timers, cells[count:], strict=True)
        }
