"""What: a `DoFn` with state and timers as a keyed computation (MillWheel paper §5.1; Beam's stateful `ParDo`).

For each key of a bundle `process` is called with the elements in order of delivery, then due timers call their methods.
State and timers belong to a key and window: when the watermark reaches the end of the window and its allowed lateness,
a timer of the engine's own takes away what is left, and elements that come later are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import NamedTuple, cast

from headrace.lowlevel.computation import BundleComputation, Context
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.record import Batch, Emit
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.timer import TimeDomain, Timer
from headrace.sdk.frames import Frame, Frames
from headrace.sdk.fusion.plan import Form
from headrace.sdk.grouping import OUTSIDE
from headrace.sdk.lifecycle import call_hook, set_up, start_bundle
from headrace.sdk.panes import PaneInfo
from headrace.sdk.shipping import shipped
from headrace.sdk.stateful.call import Call
from headrace.sdk.stateful.combining import CombiningValueStateSpec
from headrace.sdk.stateful.keywindow import CLOSING, TIMER, KeyWindow, Place
from headrace.sdk.stateful.outputs import Outputs
from headrace.sdk.stateful.signature import Signature
from headrace.sdk.statesignature import window_kind
from headrace.sdk.transforms.combinefn import AnyCombineFn
from headrace.sdk.transforms.element import DoFn, FunctionDoFn
from headrace.sdk.transforms.parameters import Arguments
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import BoundedWindow

Pair = tuple[object, object]
Windows = tuple[BoundedWindow, ...]
_Target = tuple[KeyWindow, Sequence[object]]
_REMEMBERED = 10_000
"""Windows and tags of timers that are looked up rather than worked out again."""
SidedPair = tuple[Pair, BoundedWindow, PaneInfo | None, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class StatefulPlan:
    """A stateful step; shipped to the workers."""

    label: str
    fn: DoFn
    arguments: Arguments
    """How its `process` is called."""
    signature: Signature
    windowing: Windowing
    forms: Mapping[str, Form]
    """Input stream -> how the values of its pairs carry windows, PLAIN or WINDOWED; SIDED for whole pairs."""
    outputs: Mapping[str | None, str]
    """Tag -> stream, in the form FIRED."""

    def combiners(self) -> list[AnyCombineFn]:
        """The combiners of its state, which have a life of their own."""
        return [spec.combine_fn for spec in self.signature.specs if isinstance(spec, CombiningValueStateSpec)]


class StatefulParDo(BundleComputation):
    """Runs a stateful `DoFn`."""

    def __init__(self, plan: StatefulPlan) -> None:
        self.plan = plan
        self._live: _LiveFn | None = None
        self._ending: ExitStack | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"plan": self.plan, "_live": None, "_ending": None}

    def weak_streams(self, outputs: frozenset[str]) -> frozenset[str]:
        """All, if the function says so."""
        return frozenset() if self.plan.fn.strong_productions else outputs

    @property
    def live(self) -> _LiveFn:
        """The function as it is in this process."""
        assert self._live is not None, "setup() comes first"
        return self._live

    def setup(self) -> None:
        """Set the function up, in a copy of its own: what it opens must not stick to the plan."""
        plan = shipped(self.plan, self.plan.label)
        self._live = _LiveFn(plan)
        parts: list[DoFn | AnyCombineFn] = [plan.fn, *plan.combiners()]
        self._ending = set_up((plan.label, part) for part in parts)

    def teardown(self) -> None:
        """Tear the function and its combiners down, and let go of them."""
        self._live, ending, self._ending = None, self._ending, None
        if ending is not None:
            ending.close()

    def has_teardown(self) -> bool:
        """Whether the function or one of its combiners defines it."""
        own = type(self.plan.fn).teardown is not DoFn.teardown
        return own or any(combiner.has_teardown() for combiner in self.plan.combiners())

    def state_signature(self) -> Mapping[str, str]:
        """Windows, and each piece of state and timer by name."""
        windowing = self.plan.windowing
        windows = {"windows": window_kind(windowing.window_fn), "allowed lateness": str(windowing.allowed_lateness)}
        return windows | dict(spec.aspect() for spec in self.plan.signature.specs)

    def start_bundle(self) -> None:
        """Start a bundle."""
        self.live.start_bundle()

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Process elements of a key."""
        self.live.turn_to(context)
        form = self.plan.forms[stream]
        if form is Form.PLAIN:
            self.live.take_plain(cast(Sequence[Pair], batch.values), batch.timestamps)
        elif form is Form.SIDED:
            self.live.take_sided(cast("Sequence[SidedPair]", batch.values), batch.timestamps)
        else:
            self.live.take_windowed(cast(Sequence[Pair], batch.values), batch.timestamps)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Call what a timer is for, or take a window away."""
        self.live.turn_to(context)
        self.live.fire(timer)

    def finish_key(self, context: Context) -> None:
        """Write what changed, and send what was put out."""
        self.live.finish(context)

    def finish_bundle(self, emit: Emit) -> None:
        """Finish the bundle; what it puts out then is sent too."""
        self.live.finish_bundle(emit)


@dataclass(frozen=True, slots=True)
class FiredTimer:
    """What an error says of the timer that was being processed."""

    name: str
    dynamic_tag: str
    timestamp: Timestamp
    window: BoundedWindow


class _Aim(NamedTuple):
    """What a timer is for, as its tag says."""

    place: Place
    closes: bool
    """Whether it waits for the window to close."""
    name: str = ""
    dynamic_tag: str = ""


class _LiveFn:
    """A stateful function in one process, and what it is at."""

    def __init__(self, plan: StatefulPlan) -> None:
        signature, fn = plan.signature, plan.fn
        self.fn = fn
        self._label = plan.label
        self._signature = signature
        self._process = Call(fn.process, plan.arguments, isinstance(fn, FunctionDoFn) and fn.spread)
        callbacks = signature.callbacks.items()
        self._on_timer = {name: Call(getattr(fn, its.method), its.arguments) for name, its in callbacks}
        self._outputs = Outputs(plan.outputs, plan.windowing)
        self._frames = Frames(plan.windowing)
        self._assign_all = plan.windowing.window_fn.assign_all
        self._context: Context | None = None
        self._windows: dict[bytes, KeyWindow] = {}
        self._places: dict[bytes, Place] = {}
        self._targets: dict[int, tuple[Windows, list[Place]]] = {}
        """By identity: elements of a window mostly share the tuple, and to compare windows takes long."""
        self._aims: dict[str, _Aim] = {}

    def start_bundle(self) -> None:
        """A bundle begins; the one before may have failed halfway."""
        self._context = None
        self._outputs.clear()
        start_bundle(self._label, self.fn)

    def turn_to(self, context: Context) -> None:
        """Begin with a key, if this is the first call for it."""
        if self._context is not context:
            self._context = context
            self._windows = {}

    # Elements

    def take_plain(self, pairs: Sequence[Pair], timestamps: Sequence[int]) -> None:
        """Process pairs that are in the windows of their timestamps."""
        self._take(pairs, timestamps, self._assign_all(timestamps, pairs), repeat(None, len(pairs)))

    def take_windowed(self, pairs: Sequence[Pair], timestamps: Sequence[int]) -> None:
        """Process pairs whose values say windows and pane."""
        payloads = cast("list[tuple[object, Windows, PaneInfo | None]]", [payload for _, payload in pairs])
        elements = [(key, payload[0]) for (key, _), payload in zip(pairs, payloads, strict=True)]
        self._take(elements, timestamps, [payload[1] for payload in payloads], (payload[2] for payload in payloads))

    def take_sided(self, values: Sequence[SidedPair], timestamps: Sequence[int]) -> None:
        """Process pairs that come with a window, a pane and side values; neighbours often share window and values."""
        for _, run in groupby(zip(values, timestamps, strict=True), lambda item: (id(item[0][1]), id(item[0][3]))):
            its, times = zip(*run, strict=True)
            pairs, windows, panes, sides = zip(*its, strict=True)
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
        late = outside = 0
        before: Windows | None = None
        targets: list[_Target] = []
        known: dict[int, list[_Target]] = {}
        pair: object = None
        try:
            for pair, timestamp, its, pane in zip(pairs, timestamps, windows, panes, strict=True):
                if its is not before:
                    before = its
                    opened = known.get(id(its))
                    if opened is None:
                        opened = known[id(its)] = self._open(its, sides)
                    targets = opened
                if not targets:
                    late, outside = (late + 1, outside) if its else (late, outside + 1)
                for window, rest in targets:
                    window.at = timestamp
                    results = method(pair, *rest) if is_plain else process(window, pair, timestamp, pane)
                    if results is not None:
                        outputs.take(results, timestamp, window.frame.window, pane)
        except Exception as error:
            raise failed_step(error, self._label, self._key, pair) from error
        self._count(late, outside)

    def _count(self, late: int, outside: int) -> None:
        assert self._context is not None, "turn_to() comes first"
        if late:
            self._context.drop_late(late)
        if outside:
            self._context.count(OUTSIDE, outside)

    @property
    def _key(self) -> object:
        assert self._context is not None, "turn_to() comes first"
        return self._context.key

    def _open(self, windows: Windows, sides: tuple[object, ...]) -> list[_Target]:
        """Those of an element's windows that are not closed, each with what a plain method takes there."""
        assert self._context is not None, "turn_to() comes first"
        found = self._targets.get(id(windows))
        if found is None:
            if len(self._targets) >= _REMEMBERED:
                self._targets.clear()
            # With the windows themselves: as long as they are kept, nothing else has their identity.
            found = self._targets[id(windows)] = (
                windows,
                [self._place(self._frames.of_window(window)) for window in windows],
            )
        watermark, call = self._context.watermark, self._process
        targets: list[_Target] = []
        for place in found[1]:
            if place.frame.closes > watermark:
                window = self._window(place)
                window.sides = sides
                targets.append((window, call.rest(window) if call.is_plain else ()))
        return targets

    def _window(self, place: Place) -> KeyWindow:
        windows, name = self._windows, place.cells
        if name in windows:
            return windows[name]
        assert self._context is not None, "turn_to() comes first"
        found = windows[name] = KeyWindow(place, self._context)
        return found

    def _place(self, frame: Frame) -> Place:
        found = self._places.get(frame.code)
        if found is None:
            if len(self._places) >= _REMEMBERED:
                self._places.clear()
            found = self._places[frame.code] = Place.of(frame)
        return found

    # Timers

    def fire(self, timer: Timer) -> None:
        """Call what a timer is for, or take a window away if that is what it is for."""
        aim = self._aims.get(timer.tag)
        if aim is None:
            if len(self._aims) >= _REMEMBERED:
                self._aims.clear()
            aim = self._aims[timer.tag] = self._aim(timer.tag)
        window = self._window(aim.place)
        if aim.closes:
            window.close(self._signature.uses_wall_time)
            return
        if timer.domain is TimeDomain.WALL_TIME:
            window.wall_timer_fired()
        else:
            window.timer_fired(aim.name)
        # A timer of an earlier version of the program may be for nothing.
        if (call := self._on_timer.get(aim.name)) is not None:
            self._call(call, window, timer, aim.name, aim.dynamic_tag)

    def _aim(self, tag: str) -> _Aim:
        """What the timers of a tag are for."""
        if tag.startswith(CLOSING):
            return _Aim(self._place(self._frames.of_tag(tag[len(CLOSING) :])), closes=True)
        place, _, rest = tag[len(TIMER) :].partition(" ")
        length, _, names = rest.partition(":")
        return _Aim(self._place(self._frames.of_tag(place)), False, names[: int(length)], names[int(length) :])

    def _call(self, call: Call, window: KeyWindow, timer: Timer, name: str, dynamic_tag: str) -> None:
        window.at = timer.timestamp if timer.hold is None else timer.hold
        try:
            results = call.on_timer(window, timer.timestamp, dynamic_tag)
            if results is not None:
                self._outputs.take(results, window.at, window.frame.window, None)
        except Exception as error:
            fired = FiredTimer(name, dynamic_tag, Timestamp(micros=timer.timestamp), window.frame.window)
            raise failed_step(error, self._label, self._key, fired) from error

    # Ends

    def finish(self, context: Context) -> None:
        """The key is done."""
        if self._context is not context:
            return
        for window in self._windows.values():
            window.finish(self._signature.uses_wall_time)
        self._outputs.send(context.produce_batch)
        self._context = None

    def finish_bundle(self, emit: Emit) -> None:
        """The bundle is done."""
        outputs = call_hook(self._label, self.fn.finish_bundle)
        if outputs is not None:
            call_hook(self._label, lambda: self._outputs.take_last(outputs))
            self._outputs.send(emit)
