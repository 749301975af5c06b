"""What: Beam's DoFns with state and timers, whose state is that of Headrace's stateful steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import apache_beam
from apache_beam.transforms import userstate as beam
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp
from headrace.runners.beam.functions.do_fns import BeamDoFn
from headrace.runners.beam.functions.keys import BeamKeyCoder
from headrace.runners.beam.functions.own_coders import OwnCoder
from headrace.runners.beam.functions.user_state import BeamTimer, declarations, spec_of, view_of
from headrace.runners.beam.windows import to_beam
from headrace.sdk.functions.arguments import Arguments, Constant, Given, Source, StateArgument, TimerArgument
from headrace.sdk.functions.declared_state import Callback, DeclaredState
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.userstate.timers import TimeDomain, TimerSpec, UserTimer
from headrace.sdk.windows import BoundedWindow


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
