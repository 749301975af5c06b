"""What a recording keeps of a computation, or of a `DoFn` with state: its calls, and what they put out, key by key.

The computation is wrapped: it sees the same records, state and timers, and what is seen of it leaves by one more
stream. State and its signature are its own, so a checkpoint goes on with or without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, TypeAlias, cast

from headrace.lowlevel.computation import BundleComputation, Computation, Context
from headrace.lowlevel.record import Batch, Emit, Record
from headrace.lowlevel.timer import TimeDomain, Timer
from headrace.lowlevel.topology import Keyed
from headrace.sdk.fusion.plan import Form
from headrace.sdk.recordedtap import Row, plain
from headrace.sdk.recording import Arrival, FiredTimer, Production, Value
from headrace.sdk.shorttext import text_of
from headrace.sdk.stateful.computation import StatefulParDo
from headrace.sdk.stateful.keywindow import CLOSING, TIMER

Told: TypeAlias = tuple[str, int, str, Value, bool]
"""Kind, timestamp, key, value or tag, and whether a timer waited for the wall clock."""
_IN, _OUT, _FIRED = "in", "out", "fired"


def of_call(clock: int, row: Row) -> Arrival | Production | FiredTimer:
    """What a row of `Told` says, at the clock of its epoch."""
    kind, timestamp, key, value, is_wall = cast(Told, row[0])
    if kind == _FIRED:
        return FiredTimer(timestamp, clock, key, str(value), is_wall)
    return (Arrival if kind == _IN else Production)(timestamp, clock, key, value)


def watched(place: Keyed, stream: str) -> Keyed:
    """A computation's place, with what is seen of it going to a stream."""
    computation = place.computation
    kind = WatchedBundles if isinstance(computation, BundleComputation) else Watched
    return replace(place, computation=kind(computation, stream), outputs=place.outputs | {stream})


class _Words(Protocol):
    """How a kind of computation packs what it gets and gives."""

    def taken(self, stream: str, key: object, value: object) -> object:
        """The value that an input stands for."""

    def given(self, key: object, value: object) -> object:
        """The value that an output stands for, of a call for a key."""

    def tag(self, tag: str) -> str | None:
        """What user code calls a timer; None if it is none of its own."""


class _PlainWords:
    def taken(self, stream: str, key: object, value: object) -> object:
        return _without_key(key, value)

    def given(self, key: object, value: object) -> object:
        return _without_key(key, value)

    def tag(self, tag: str) -> str | None:
        return tag


class _StatefulWords:
    """Those of `StatefulParDo`: inputs in its plan's forms, outputs with window and pane, tags with windows."""

    def __init__(self, forms: Mapping[str, Form]) -> None:
        self._forms = forms

    def taken(self, stream: str, key: object, value: object) -> object:
        pair = cast("tuple[object, ...]", value)
        if self._forms[stream] is Form.SIDED:
            return cast("tuple[object, object]", pair[0])[1]
        return pair[1] if self._forms[stream] is Form.PLAIN else cast("tuple[object, ...]", pair[1])[0]

    def given(self, key: object, value: object) -> object:
        return _without_key(key, cast("tuple[object, ...]", value)[0])

    def tag(self, tag: str) -> str | None:
        if tag.startswith(CLOSING):
            return None
        length, _, names = tag[len(TIMER) :].partition(" ")[2].partition(":")
        name, dynamic = names[: int(length)], names[int(length) :]
        return f"{name} {dynamic}" if dynamic else name


def _without_key(key: object, value: object) -> object:
    """The value of a pair whose key everybody knows."""
    # Keys are compared by type first: what compares may be anything, an array of numbers for instance.
    if isinstance(value, tuple) and len(value) == 2 and type(value[0]) is type(key) and isinstance(key, (str, int)):
        return value[1] if value[0] == key else value
    return value


class Watched(Computation):
    """A computation that tells on a stream what it is given and what it gives."""

    def __init__(self, inner: Computation, stream: str) -> None:
        self.inner = inner
        self._stream = stream
        self.exactly_once = inner.exactly_once
        self.strong_productions = inner.strong_productions
        self.state_coder = inner.state_coder
        self.private_state = inner.private_state
        self._words: _Words = _StatefulWords(inner.plan.forms) if isinstance(inner, StatefulParDo) else _PlainWords()
        self._seen: _WatchedContext | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_seen": None}

    def setup(self) -> None:
        """The computation's."""
        self.inner.setup()

    def start_bundle(self) -> None:
        """The computation's."""
        self._seen = None
        self.inner.start_bundle()

    def finish_bundle(self, emit: Emit) -> None:
        """The computation's; what it puts out now is no key's."""

        def telling(stream: str, batch: Batch) -> None:
            emit(stream, batch)
            told = [
                (_OUT, timestamp, "", plain(self._words.given(None, value)), False) for value, timestamp in batch.rows()
            ]
            emit(self._stream, Batch(told, batch.timestamps))

        self.inner.finish_bundle(telling)

    def teardown(self) -> None:
        """The computation's."""
        self.inner.teardown()

    def has_teardown(self) -> bool:
        """The computation's."""
        return self.inner.has_teardown()

    def state_signature(self) -> Mapping[str, str]:
        """The computation's, as the state is."""
        return self.inner.state_signature()

    def weak_streams(self, outputs: frozenset[str]) -> frozenset[str]:
        """The computation's; what is told of it is strong."""
        return self.inner.weak_streams(outputs - {self._stream})

    def initial_state(self) -> object:
        """The computation's."""
        return self.inner.initial_state()

    def process_record(self, record: Record, context: Context) -> None:
        """Tell of the record, and let the computation have it."""
        value = self._words.taken("", record.key, record.value)
        self._tell(context, _IN, record.timestamp, plain(value))
        self.inner.process_record(record, self._context(context, record.timestamp))

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Tell of the timer, and let the computation have it."""
        is_wall = timer.domain is TimeDomain.WALL_TIME
        if (tag := self._words.tag(timer.tag)) is not None:
            self._tell(context, _FIRED, timer.timestamp, text_of(tag), is_wall)
        self.inner.process_timer(timer, self._context(context, timer.timestamp))

    def finish_key(self, context: Context) -> None:
        """The computation's."""
        self.inner.finish_key(self._context(context, None))

    def _tell(self, context: Context, kind: str, timestamp: int, value: Value, is_wall: bool = False) -> None:
        context.produce(self._stream, (kind, timestamp, text_of(context.key), value, is_wall), timestamp)

    def _context(self, context: Context, now: int | None) -> Context:
        """What the computation gets instead of the context: the same for as long as the context is."""
        if self._seen is None or self._seen.context is not context:
            self._seen = _WatchedContext(context, self)
        if now is not None:
            self._seen.now = now
        # What it does not define it passes on.
        return cast(Context, self._seen)

    def gave(self, context: Context, value: object, timestamp: int) -> None:
        """The computation has put a value out."""
        self._tell(context, _OUT, timestamp, plain(self._words.given(context.key, value)))


class WatchedBundles(Watched, BundleComputation):
    """As `Watched`, of a computation that takes records together."""

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Tell of the records, and let the computation have them."""
        for value, timestamp in batch.rows():
            self._tell(context, _IN, timestamp, plain(self._words.taken(stream, context.key, value)))
        inner = cast(BundleComputation, self.inner)
        inner.process_batch(stream, batch, self._context(context, batch.timestamps[-1]))


_QUIET = ("read", "write", "scan", "erase", "set_timer", "delete_timer", "timer", "timers", "hold", "release")
"""What of a context produces nothing."""


class _WatchedContext:
    """A `Context` that says what is produced; everything else is the real one's."""

    def __init__(self, context: Context, watched: Watched) -> None:
        self.context = context
        self.now = 0
        """Timestamp of what is being processed: the default for productions."""
        self._watched = watched
        # All that does not produce is called as often as before, and found without a detour.
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
        self._watched.gave(self.context, value, self.now if timestamp is None else timestamp)

    def produce_batch(self, stream: str, batch: Batch) -> None:
        self.context.produce_batch(stream, batch)
        for value, timestamp in batch.rows():
            self._watched.gave(self.context, value, timestamp)
