"""What: a `DoFn` with state and timers as a keyed computation (MillWheel paper §5.1; Beam's stateful `ParDo`).

For each key of a bundle, `process` is called with the elements in their order of delivery; then due timers call their
methods. State and timers belong to a key and window. When the watermark reaches the end of the window plus the allowed
lateness, a timer of the engine deletes the rest of the state, and later elements are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import NamedTuple, cast

from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, Timestamp
from headrace.lowlevel.topology.computation import Context
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.lowlevel.user_errors import failed_step
from headrace.sdk.functions.arguments import Arguments
from headrace.sdk.functions.declarations import DeclaredState
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.functions.lifecycle import HasLifecycle, call_hook, start_bundle
from headrace.sdk.model.element_form import ElementForm
from headrace.sdk.model.panes import PaneInfo
from headrace.sdk.operators.stateful.do_fn_computation import DoFnComputation, Outputs
from headrace.sdk.operators.stateful.key_window import KeyWindow, WindowNames
from headrace.sdk.operators.stateful.method_invoker import Call
from headrace.sdk.userstate.value_states import CombiningValueStateSpec
from headrace.sdk.windows import BoundedWindow
from headrace.sdk.windows.window_fn import OUTSIDE_WINDOWS
from headrace.sdk.windows.window_namespace import TimerTag, WindowNamespace, WindowNamespaces
from headrace.sdk.windows.windowing import Windowing, window_kind

Pair = tuple[object, object]
Windows = tuple[BoundedWindow, ...]
_Target = tuple[KeyWindow, Sequence[object]]
_REMEMBERED = 10_000
"""Number of cached windows and tags of timers."""
SidedPair = tuple[Pair, BoundedWindow, PaneInfo | None, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class StatefulPlan:
    """Configuration of a stateful step; it is pickled and sent to the workers."""

    label: str
    fn: DoFn
    arguments: Arguments
    """Sources of the arguments of `process`."""
    declared_state: DeclaredState
    windowing: Windowing
    forms: Mapping[str, ElementForm]
    """Input stream -> how the values of its pairs carry windows, PLAIN or WINDOWED; SIDED for whole pairs."""
    outputs: Mapping[str | None, str]
    """Tag -> stream, in the form FIRED."""
    is_bounded: bool
    """Whether the input has an end. If so, real-time timers that wait when their window closes fire then, as nothing
    else comes for what they keep; with endless input they are deleted."""
    is_drained: bool = False
    """Whether the input ends by a drain."""


@named("StatefulParDo")
class StatefulParDo(DoFnComputation[StatefulPlan, "_LiveFn"]):
    """Runs a stateful `DoFn` as a keyed computation."""

    def make_live(self, plan: StatefulPlan) -> _LiveFn:
        """See `DoFnComputation`."""
        return _LiveFn(plan)

    def functions(self, plan: StatefulPlan) -> list[tuple[str, HasLifecycle]]:
        """The `DoFn`, and combiners of values in state."""
        combining = [spec for spec in plan.declared_state.specs if isinstance(spec, CombiningValueStateSpec)]
        return [*super().functions(plan), *((plan.label, spec.combine_fn) for spec in combining)]

    def state_signature(self) -> Mapping[str, str]:
        """Windows, allowed lateness, and each state and timer by name."""
        windowing = self.plan.windowing
        windows = {"windows": window_kind(windowing.window_fn), "allowed lateness": str(windowing.allowed_lateness)}
        return {**windows, **self.plan.declared_state.aspects()}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Process the elements of a key."""
        self.live.turn_to(context)
        form = self.plan.forms[stream]
        if form is ElementForm.PLAIN:
            self.live.take_plain(cast(Sequence[Pair], batch.values), batch.timestamps)
        elif form is ElementForm.SIDED:
            self.live.take_sided(cast("Sequence[SidedPair]", batch.values), batch.timestamps)
        else:
            self.live.take_windowed(cast(Sequence[Pair], batch.values), batch.timestamps)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Call the method of a timer, or close a window."""
        self.live.turn_to(context)
        self.live.fire(timer)

    def finish_key(self, context: Context) -> None:
        """Write changes of state, and send outputs."""
        self.live.finish(context)


@dataclass(frozen=True, slots=True)
class DueTimer:
    """The timer that an error message names as the one being processed."""

    name: str
    dynamic_tag: str
    timestamp: Timestamp
    window: BoundedWindow


class _Aim(NamedTuple):
    """The purpose of a timer, decoded from its tag."""

    place: WindowNames
    closes: bool
    """Whether the timer waits for the window to close."""
    name: str = ""
    dynamic_tag: str = ""


class _LiveFn:
    """A stateful function in one process, with the key and windows that it is processing."""

    def __init__(self, plan: StatefulPlan) -> None:
        declared_state, fn = plan.declared_state, plan.fn
        self.fn = fn
        self._label = plan.label
        self._is_drained = plan.is_drained
        self._fires_rest = plan.is_bounded and plan.declared_state.uses_wall_time
        self._declared_state = declared_state
        self._process = Call(fn.process, plan.arguments)
        callbacks = declared_state.callbacks.items()
        self._on_timer = {name: Call(getattr(fn, callback.method), callback.arguments) for name, callback in callbacks}
        self._outputs = Outputs(plan.outputs, plan.windowing)
        self._namespaces = WindowNamespaces(plan.windowing)
        self._assign_all = plan.windowing.window_fn.assign_all
        self._context: Context | None = None
        self._windows: dict[bytes, KeyWindow] = {}
        self._places: dict[bytes, WindowNames] = {}
        self._targets: dict[int, tuple[Windows, list[WindowNames]]] = {}
        """Keys are identities: elements of a window mostly share the tuple, and comparing windows is slow."""
        self._aims: dict[str, _Aim] = {}

    def start_bundle(self) -> None:
        """Start a bundle; the previous bundle may have failed."""
        self._context = None
        self._outputs.clear()
        start_bundle(self._label, self.fn)

    def turn_to(self, context: Context) -> None:
        """Start a key, if this is the first call for the key."""
        if self._context is not context:
            self._context = context
            self._windows = {}

    # Elements

    def take_plain(self, pairs: Sequence[Pair], timestamps: Sequence[int]) -> None:
        """Process pairs whose windows follow from their timestamps."""
        self._take(pairs, timestamps, self._assign_all(timestamps, pairs), repeat(None, len(pairs)))

    def take_windowed(self, pairs: Sequence[Pair], timestamps: Sequence[int]) -> None:
        """Process pairs whose values carry windows and a pane."""
        payloads = cast("list[tuple[object, Windows, PaneInfo | None]]", [payload for _, payload in pairs])
        elements = [(key, payload[0]) for (key, _), payload in zip(pairs, payloads, strict=True)]
        self._take(elements, timestamps, [payload[1] for payload in payloads], (payload[2] for payload in payloads))

    def take_sided(self, values: Sequence[SidedPair], timestamps: Sequence[int]) -> None:
        """Process pairs with a window, a pane and side values; successive pairs often share window and side values."""
        for _, run in groupby(zip(values, timestamps, strict=True), lambda item: (id(item[0][1]), id(item[0][3]))):
            elements, times = zip(*run, strict=True)
            pairs, windows, panes, sides = zip(*elements, strict=True)
            self._take(pairs, times, [(windows[0],)] * len(pairs), panes, sides[0])

    def _take(
        self,
        pairs: Sequence[Pair],
        timestamps: Sequence[int],
        windows: Sequence[Windows],
        panes: Iterable[PaneInfo | None],
        sides: tuple[object, ...] = (),
    ) -> None:
        call, outputs = self._process, self._outputs
        method, process, is_plain = call.method, call.on_element, call.is_plain
        late: list[Windows] = []
        outside = 0
        before: Windows | None = None
        targets: list[_Target] = []
        known: dict[int, list[_Target]] = {}
        pair: object = None
        try:
            if call.convert is not None:
                pairs = cast("list[Pair]", list(map(call.convert, pairs)))
            for pair, timestamp, assigned, pane in zip(pairs, timestamps, windows, panes, strict=True):
                if assigned is not before:
                    before = assigned
                    opened = known.get(id(assigned))
                    if opened is None:
                        opened = known[id(assigned)] = self._open(assigned, sides)
                    targets = opened
                if not targets:
                    if assigned:
                        late.append(assigned)
                    else:
                        outside += 1
                for window, rest in targets:
                    window.at = timestamp
                    results = method(pair, *rest) if is_plain else process(window, pair, timestamp, pane)
                    if results is not None:
                        outputs.take(results, timestamp, window.namespace.window, pane)
        except Exception as error:
            raise failed_step(error, self._label, self._key, pair) from error
        self._count(late, outside)

    def _count(self, late: Sequence[Windows], outside: int) -> None:
        """Count elements that no open window takes: late ones, given by their windows, and those without windows."""
        assert self._context is not None, "turn_to() comes first"
        for _, alike in groupby(late, id):
            windows, *others = alike
            self._context.drop_late(1 + len(others), self._namespaces.of_last(windows).window)
        if outside:
            self._context.count(OUTSIDE_WINDOWS, outside)

    @property
    def _key(self) -> object:
        assert self._context is not None, "turn_to() comes first"
        return self._context.key

    def _open(self, windows: Windows, sides: tuple[object, ...]) -> list[_Target]:
        """The windows of an element that are not closed, each with a plain method's arguments after the element."""
        assert self._context is not None, "turn_to() comes first"
        found = self._targets.get(id(windows))
        if found is None:
            if len(self._targets) >= _REMEMBERED:
                self._targets.clear()
            # The entry keeps the windows alive, so that no other object can have their identity.
            found = self._targets[id(windows)] = (
                windows,
                [self._place(self._namespaces.of_window(window)) for window in windows],
            )
        watermark, call = self._context.watermark, self._process
        targets: list[_Target] = []
        for place in found[1]:
            if not is_closed(place.namespace.closes, watermark):
                window = self._window(place)
                window.sides = sides
                targets.append((window, call.rest(window) if call.is_plain else ()))
        return targets

    def _window(self, place: WindowNames) -> KeyWindow:
        windows, name = self._windows, place.cells
        if name in windows:
            return windows[name]
        assert self._context is not None, "turn_to() comes first"
        found = windows[name] = KeyWindow(place, self._context, self._fires_rest)
        return found

    def _place(self, namespace: WindowNamespace) -> WindowNames:
        found = self._places.get(namespace.code)
        if found is None:
            if len(self._places) >= _REMEMBERED:
                self._places.clear()
            found = self._places[namespace.code] = WindowNames.of(namespace)
        return found

    # Timers

    def fire(self, timer: Timer) -> None:
        """Call the method of a timer, or close the window if the timer waits for that."""
        aim = self._aims.get(timer.tag)
        if aim is None:
            if len(self._aims) >= _REMEMBERED:
                self._aims.clear()
            aim = self._aims[timer.tag] = self._aim(timer.tag)
        window = self._window(aim.place)
        if aim.closes:
            if self._fires_rest:
                window.fire_rest()
            else:
                window.close(self._declared_state.uses_wall_time)
            return
        if timer.domain is TimeDomain.WALL_TIME:
            window.wall_timer_fired()
        else:
            window.timer_fired(aim.name)
        # A timer that an earlier version of the program has set may have no method any more.
        if (call := self._on_timer.get(aim.name)) is not None:
            self._call(call, window, timer, aim.name, aim.dynamic_tag)

    def _aim(self, tag: str) -> _Aim:
        """Decode the tag of a timer."""
        parts = TimerTag.parse(tag)
        return _Aim(
            self._place(self._namespaces.of_tag(parts.window)), parts.closing, parts.name or "", parts.dynamic_tag
        )

    def _call(self, call: Call, window: KeyWindow, timer: Timer, name: str, dynamic_tag: str) -> None:
        window.at = timer.timestamp if timer.hold is None else timer.hold
        try:
            is_drained = self._is_drained and window.context.watermark >= MAX_TIMESTAMP
            results = call.on_timer(window, timer.timestamp, dynamic_tag, is_drained)
            if results is not None:
                self._outputs.take(results, window.at, window.namespace.window, None)
        except Exception as error:
            fired = DueTimer(name, dynamic_tag, Timestamp(micros=timer.timestamp), window.namespace.window)
            raise failed_step(error, self._label, self._key, fired) from error

    # Ends

    def finish(self, context: Context) -> None:
        """End the key: write changes of state, and send outputs."""
        if self._context is not context:
            return
        for window in self._windows.values():
            window.finish(self._declared_state.uses_wall_time)
        self._outputs.send(context.produce_batch)
        self._context = None

    def finish_bundle(self, emit: Emit) -> None:
        """End the bundle: call `finish_bundle` of the function, and send its outputs."""
        outputs = call_hook(self._label, self.fn.finish_bundle)
        if outputs is not None:
            call_hook(self._label, lambda: self._outputs.take_last(outputs))
            self._outputs.send(emit)
