"""Computations: what users write at this layer (MillWheel paper §4.1, §5.1, figure 7).

A `Computation` is code for one key at a time, with that key's persistent state and timers. An `InlineComputation` has
neither: it runs on whole batches where they are produced, before any key is extracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from headrace.lowlevel.coder import Coder, PickleCoder, coder_name
from headrace.lowlevel.record import Batch, Emit, Record
from headrace.lowlevel.timer import TimeDomain, Timer

if TYPE_CHECKING:
    from headrace.lowlevel.intervalcomputation import IntervalContext


class Context(Protocol):
    """What a computation reaches while it runs for one key (paper figure 7: state, timers, productions)."""

    @property
    def key(self) -> object:
        """The key that this call is for."""

    @property
    def watermark(self) -> int:
        """The computation's input low watermark, microseconds UTC. It never goes back."""

    @property
    def wall_time(self) -> int:
        """The epoch's reading of the wall clock, microseconds UTC."""

    def is_late(self, record: Record) -> bool:
        """Whether the record is behind the low watermark (paper §4.5)."""

    state: object
    """The key's persistent state. The first look decodes it, or asks `Computation.initial_state`; whatever it is at
    the end of the bundle is encoded and committed. None is no state: setting it frees the key's storage."""

    def read(self, cell: bytes) -> bytes | None:
        """A named part of the key's storage, apart from `state`: its bytes, or None. At most 400 bytes of name."""

    def write(self, cell: bytes, data: bytes | None) -> None:
        """Replace a named part of the key's storage; None takes it away."""

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The key's named parts whose names begin with `prefix`, by name; `state` is not among them."""

    def erase(self, prefix: bytes) -> None:
        """Take away all named parts whose names begin with `prefix`; `state` is not among them."""

    def set_timer(
        self, tag: str, timestamp: int, domain: TimeDomain = TimeDomain.LOW_WATERMARK, hold: int | None = None
    ) -> None:
        """Fire `process_timer` once the domain's clock reaches `timestamp` (microseconds UTC).

        A timer of the same tag and domain is replaced. With `hold`, the output watermark stays at or below that
        event time until the timer has fired or is deleted. A timestamp already reached fires in this bundle.
        """

    def delete_timer(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> None:
        """Take a timer (and its hold) away; nothing happens if there is none."""

    def timer(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> int | None:
        """When the timer of this tag is set to fire, or None."""

    def timers(self, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> Iterator[tuple[str, int]]:
        """The key's timers of a domain: tags, and when they are set to fire, in no particular order."""

    def hold(self, timestamp: int, tag: str = "") -> None:
        """Keep the output watermark at or below `timestamp` until released; replaces the hold of the same tag."""

    def release(self, tag: str = "") -> None:
        """End a hold."""

    def produce(self, stream: str, value: object, timestamp: int | None = None) -> None:
        """Send a value to a stream, at the timestamp given, else at that of the record or timer being processed."""

    def produce_batch(self, stream: str, batch: Batch) -> None:
        """Send many values to a stream at once."""

    def count(self, counter: str, n: int = 1) -> None:
        """Add to a counter of this computation; exact under retries, as it is part of the commit."""

    def drop_late(self, n: int = 1) -> None:
        """Say that `n` late records were dropped: they appear in the counter `dropped_late`."""


class Computation:
    """Code for one key at a time. Subclass it and override `process_record`, and `process_timer` if it sets timers.

    Calls for one key are serial; distinct keys run in parallel. An instance is shipped to the workers: what it holds
    besides configuration is lost. Everything that must last goes into `context.state`.

    >>> class Counter(Computation):
    ...     def initial_state(self):
    ...         return 0
    ...     def process_record(self, record, context):
    ...         context.state += 1
    ...         context.set_timer("report", 60_000_000)
    ...     def process_timer(self, timer, context):
    ...         context.produce("counts", (context.key, context.state), timer.timestamp)
    """

    exactly_once: bool = True
    """Whether records with ids are checked against those of earlier deliveries. Without it a record that an injector
    delivers again is processed again, and no ids are kept (paper §6.1.3: for idempotent computations)."""
    strong_productions: bool = True
    """Whether productions become visible with the commit of their epoch only. False chooses weak productions, which
    leave before it and may come again, also with other content (paper §6.1.3: for consumers that are idempotent).
    `headrace.lowlevel.weak` says which productions can be weak."""
    state_coder: Coder = PickleCoder()
    """How `context.state` becomes bytes (paper §4.4: the user's own serialization)."""
    private_state: bool = False
    """A promise that makes large state cheaper: what `context.state` gives, and every part of it, is out of reach once
    the call is over (nothing of it is kept elsewhere, produced, or part of another key's state), and decoding gives
    back as good as was encoded. A process may then go on with the object that it has, instead of decoding it again. It
    pays for kilobytes that are changed in place, as in a table of numbers; what only grows belongs into cells
    (`Context.write`)."""

    def setup(self) -> None:
        """Called once in each process before the first bundle."""

    def start_bundle(self) -> None:
        """Called before the first key of a bundle; not at all if the bundle has neither records nor due timers."""

    def finish_bundle(self, emit: Emit) -> None:
        """Called after the last key of a bundle; `emit(stream, batch)` any number of output batches."""

    def teardown(self) -> None:
        """Called once in each process that was set up, when the run is over; not in one that is killed."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything: if nothing does, no process is asked."""
        return type(self).teardown is not Computation.teardown

    def state_signature(self) -> Mapping[str, str]:
        """What gives meaning to what the computation stores: aspects and their values, in a reader's words.

        A checkpoint remembers it. A changed program goes on with the stored state if every aspect is still there and
        has the value it had; aspects may be added. Empty if nothing is ever stored. By default the names of the class
        and of the state's coder; override it to rename the class, or to say more.

        >>> Computation().state_signature()
        {'class': 'Computation', 'state coder': 'PickleCoder'}
        """
        return {"class": type(self).__qualname__, "state coder": coder_name(self.state_coder)}

    def take_over(self, context: IntervalContext) -> None:
        """Store anew, key by key, what another implementation of the same `state_signature` keeps in segments.

        Called before a bundle as long as the interval has segments: what it writes, and drops, goes into the context's
        delta, which the bundle finds as if it had been committed. By default nothing is taken over.
        """

    def weak_streams(self, outputs: frozenset[str]) -> frozenset[str]:
        """Those of its output streams that carry weak productions: all or none, unless it does the work of several."""
        return frozenset() if self.strong_productions else outputs

    def initial_state(self) -> object:
        """The state of a key that has none."""
        return None

    def process_record(self, record: Record, context: Context) -> None:
        """Called for every record."""
        raise TypeError(f"{type(self).__name__} got a record but does not define process_record(record, context)")

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Called when a timer fires."""
        raise TypeError(f"{type(self).__name__} set a timer but does not define process_timer(timer, context)")

    def finish_key(self, context: Context) -> None:
        """Called after a key's last record and timer of the bundle; the place to write what was kept in memory."""


class BundleComputation(Computation):
    """A computation that takes all of a key's records of one stream and bundle in one call.

    For code that can do better than one record at a time; the guarantees are those of `Computation`.
    """

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Called instead of `process_record`, with the records in order of delivery."""
        raise TypeError(f"{type(self).__name__} does not define process_batch(stream, batch, context)")


class InlineComputation:
    """Stateless code that runs on whole batches where they are produced, without a key and without a shuffle.

    The engine's own addition to the paper's model: element-wise steps between two keyed computations need no delivery
    of their own, so they run inside the task of their producer.
    """

    strong_productions: bool = True
    """See `Computation`."""

    @property
    def is_pure(self) -> bool:
        """Whether equal bundles give equal outputs and nothing else comes of it: several tasks may run it then."""
        return False

    def setup(self) -> None:
        """Called once in each process before the first batch."""

    def begin_bundle(self, watermark: int) -> None:
        """Called before the first batch of a bundle.

        `watermark` (microseconds UTC) is the low watermark that the keyed part of its step had before;
        `MIN_TIMESTAMP` if there is none.
        """
        self.start_bundle()

    def start_bundle(self) -> None:
        """Called before the first batch of a bundle, by `begin_bundle`."""

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Take a batch of an input stream; `emit(stream, batch)` any number of output batches."""
        raise TypeError(f"{type(self).__name__} does not define process_batch(stream, batch, emit)")

    def finish_bundle(self, emit: Emit) -> None:
        """Called after the last batch of a bundle."""

    def loses_ids(self) -> bool:
        """Whether some output depends on more than one record: on others, on their order or on chance.

        Such an output has no id by which it is known again if an injector delivers its record again. By default,
        whether the class has a `finish_bundle`.
        """
        return type(self).finish_bundle is not InlineComputation.finish_bundle

    def teardown(self) -> None:
        """See `Computation`."""

    def has_teardown(self) -> bool:
        """See `Computation`."""
        return type(self).teardown is not InlineComputation.teardown

    def weak_streams(self, outputs: frozenset[str], weak_inputs: frozenset[str]) -> frozenset[str]:
        """See `Computation`; one that only passes on what comes can tell by its inputs whether that is weak."""
        return frozenset() if self.strong_productions else outputs
