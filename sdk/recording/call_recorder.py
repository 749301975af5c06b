"""Records the calls of a computation, or of a `DoFn` with state, and their outputs, key by key.

The computation is wrapped: it sees the same records, state and timers, and a further stream carries what is recorded.
The wrapper has the state and the signature of the computation, so recording can be turned on and off on a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from headrace.lowlevel.records.record import Batch, Emit, Record
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import BundleComputation, Computation, Context
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.sdk.model.element_form import ElementForm
from headrace.sdk.model.short_text import text_of
from headrace.sdk.operators.stateful.stateful_par_do import StatefulParDo
from headrace.sdk.recording.recorded_step import TimedValue, recorded_value
from headrace.sdk.recording.recording import Arrival, FiredTimer, Production, Value
from headrace.sdk.windows.window_namespace import TimerTag

CallRow: TypeAlias = tuple[str, int, str, Value, bool]
"""Kind, timestamp, key, value or tag, and whether a timer waited for the wall clock."""
_IN, _OUT, _FIRED = "in", "out", "fired"


def call_item(clock: int, row: TimedValue) -> Arrival | Production | FiredTimer:
    """The item of a `CallRow`, with the clock of its epoch as processing time."""
    kind, timestamp, key, value, is_wall = cast(CallRow, row[0])
    if kind == _FIRED:
        return FiredTimer(timestamp, clock, key, str(value), is_wall)
    return (Arrival if kind == _IN else Production)(timestamp, clock, key, value)


def with_recorded_calls(node: Keyed, stream: str) -> Keyed:
    """The node of a computation, changed so that its calls are recorded on a stream."""
    computation = node.computation
    kind = WatchedBundles if isinstance(computation, BundleComputation) else Watched
    return replace(node, computation=kind(computation, stream), outputs=node.outputs | {stream})


class _Unpacking:
    """How a kind of computation packs its inputs, outputs and timer tags: a raw one takes them as they are."""

    def input_value(self, stream: str, key: object, value: object) -> object:
        """The value of an input."""
        return _without_key(key, value)

    def output_value(self, key: object, value: object) -> object:
        """The value of an output of a call for a key."""
        return _without_key(key, value)

    def tag(self, tag: str) -> str | None:
        """The name of a timer in user code; None for a timer that user code did not set."""
        return tag


class _StatefulUnpacking(_Unpacking):
    """For `StatefulParDo`: inputs in the forms of its plan, outputs with window and pane, tags with windows."""

    def __init__(self, forms: Mapping[str, ElementForm]) -> None:
        self._forms = forms

    def input_value(self, stream: str, key: object, value: object) -> object:
        pair = cast("tuple[object, ...]", value)
        if self._forms[stream] is ElementForm.SIDED:
            return cast("tuple[object, object]", pair[0])[1]
        return pair[1] if self._forms[stream] is ElementForm.PLAIN else cast("tuple[object, ...]", pair[1])[0]

    def output_value(self, key: object, value: object) -> object:
        return _without_key(key, cast("tuple[object, ...]", value)[0])

    def tag(self, tag: str) -> str | None:
        parts = TimerTag.parse(tag)
        if parts.closing:
            return None
        return f"{parts.name} {parts.dynamic_tag}" if parts.dynamic_tag else parts.name


def _without_key(key: object, value: object) -> object:
    """The value of a pair, without the key if that is the key of the call."""
    # The type is compared first: `==` of an arbitrary value, an array of numbers for instance, may give anything.
    if isinstance(value, tuple) and len(value) == 2 and type(value[0]) is type(key) and isinstance(key, (str, int)):
        return value[1] if value[0] == key else value
    return value


@named("Watched")
class Watched(Computation):
    """A computation whose inputs and outputs are recorded on a further stream."""

    def __init__(self, inner: Computation, stream: str) -> None:
        self.inner = inner
        self._stream = stream
        self.exactly_once = inner.exactly_once
        self.strong_productions = inner.strong_productions
        self.state_coder = inner.state_coder
        self.private_state = inner.private_state
        self._unpacking = _StatefulUnpacking(inner.plan.forms) if isinstance(inner, StatefulParDo) else _Unpacking()
        self._wrapped: _WatchedContext | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_wrapped": None}

    def setup(self) -> None:
        """The same as the computation's."""
        self.inner.setup()

    def start_bundle(self) -> None:
        """The same as the computation's."""
        self._wrapped = None
        self.inner.start_bundle()

    def finish_bundle(self, emit: Emit) -> None:
        """The same as the computation's; outputs of this call belong to no key."""

        def emit_recorded(stream: str, batch: Batch) -> None:
            emit(stream, batch)
            rows = [
                (_OUT, timestamp, "", recorded_value(self._unpacking.output_value(None, value)), False)
                for value, timestamp in batch.rows()
            ]
            emit(self._stream, Batch(rows, batch.timestamps))

        self.inner.finish_bundle(emit_recorded)

    def teardown(self) -> None:
        """The same as the computation's."""
        self.inner.teardown()

    def has_teardown(self) -> bool:
        """The same as the computation's."""
        return self.inner.has_teardown()

    def state_signature(self) -> Mapping[str, str]:
        """The same as the computation's, as the state is."""
        return self.inner.state_signature()

    def weak_streams(self, outputs: frozenset[str]) -> frozenset[str]:
        """The same as the computation's; the recorded stream is strong."""
        return self.inner.weak_streams(outputs - {self._stream})

    def initial_state(self) -> object:
        """The same as the computation's."""
        return self.inner.initial_state()

    def process_record(self, record: Record, context: Context) -> None:
        """Record the record, and pass it to the computation."""
        value = self._unpacking.input_value("", record.key, record.value)
        self._record(context, _IN, record.timestamp, recorded_value(value))
        self.inner.process_record(record, self._context(context, record.timestamp))

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Record the timer, and pass it to the computation."""
        is_wall = timer.domain is TimeDomain.WALL_TIME
        if (tag := self._unpacking.tag(timer.tag)) is not None:
            self._record(context, _FIRED, timer.timestamp, text_of(tag), is_wall)
        self.inner.process_timer(timer, self._context(context, timer.timestamp))

    def finish_key(self, context: Context) -> None:
        """The same as the computation's."""
        self.inner.finish_key(self._context(context, None))

    def _record(self, context: Context, kind: str, timestamp: int, value: Value, is_wall: bool = False) -> None:
        context.produce(self._stream, (kind, timestamp, text_of(context.key), value, is_wall), timestamp)

    def _context(self, context: Context, now: int | None) -> Context:
        """The recording context of a context; the same object as long as the context is the same."""
        if self._wrapped is None or self._wrapped.context is not context:
            self._wrapped = _WatchedContext(context, self)
        if now is not None:
            self._wrapped.now = now
        # Attributes that the wrapper lacks are those of the context.
        return cast(Context, self._wrapped)

    def record_output(self, context: Context, value: object, timestamp: int) -> None:
        """Record a value that the computation put out."""
        self._record(context, _OUT, timestamp, recorded_value(self._unpacking.output_value(context.key, value)))


@named("WatchedBundles")
class WatchedBundles(Watched, BundleComputation):
    """As `Watched`, for a computation that processes bundles."""

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Record the records, and pass them to the computation."""
        for value, timestamp in batch.rows():
            self._record(
                context, _IN, timestamp, recorded_value(self._unpacking.input_value(stream, context.key, value))
            )
        inner = cast(BundleComputation, self.inner)
        inner.process_batch(stream, batch, self._context(context, batch.timestamps[-1]))


_QUIET = ("read", "write", "scan", "erase", "set_timer", "delete_timer", "timer", "timers", "hold", "release")
"""Methods of a context that produce nothing."""


class _WatchedContext:
    """A `Context` that records what is produced; everything else is the wrapped context's."""

    def __init__(self, context: Context, watched: Watched) -> None:
        self.context = context
        self.now = 0
        """Timestamp of what is being processed: the default for productions."""
        self._watched = watched
        # Methods that produce nothing are looked up without `__getattr__`.
        for name in _QUIET:
            setattr(self, name, getattr(context, name))

    def __getattr__(self, name: str) -> object:
        return getattr(self.context, name)

    @property
    def state(self) -> object:
        return self.context.state

    @state.setter
    def state(self, state: object) -> None:
        self.context.state = state

    def produce(self, stream: str, value: object, timestamp: int | None = None) -> None:
        self.context.produce(stream, value, timestamp)
        self._watched.record_output(self.context, value, self.now if timestamp is None else timestamp)

    def produce_batch(self, stream: str, batch: Batch) -> None:
        self.context.produce_batch(stream, batch)
        for value, timestamp in batch.rows():
            self._watched.record_output(self.context, value, timestamp)
