"""Computations: user code that processes records and timers (MillWheel paper §4.1, §5.1, figure 7).

A `Computation` is code for one key at a time, with that key's persistent state and timers. An `InlineComputation` has
neither: it runs on whole batches where they are produced, before any key is extracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from headrace.lowlevel.coders.coder import Coder, KeyCoder, PickleCoder, coder_name
from headrace.lowlevel.coders.decoded_values import DecodedValues
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.late_data import Dropped
from headrace.lowlevel.records.record import Batch, Emit, Record
from headrace.lowlevel.state.state_store import Delta, Mark, StateStore
from headrace.lowlevel.stored_names import named, public_name
from headrace.lowlevel.topology.timer import TimeDomain, Timer


class Context(Protocol):
    """State, timers and productions of one key, as a running computation reaches them (paper figure 7).

    >>> class Latest(Computation):
    ...     def process_record(self, record, context):
    ...         if context.is_late(record):
    ...             return context.drop_late()
    ...         context.state = max(context.state or 0, record.value)
    ...         context.set_timer("minute", (record.timestamp // 60_000_000 + 1) * 60_000_000)
    ...     def process_timer(self, timer, context):
    ...         context.produce("latest", (context.key, context.state))
    ...         context.state = None
    >>> from headrace.lowlevel import BoundedInjector, CallSink, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("points", BoundedInjector([(7, 1_000_000), (5, 2_000_000)]))
    >>> topology.computation("latest", Latest(), {"points": lambda points: "red"}, ["latest"])
    >>> topology.sink("print", "latest", CallSink(lambda epoch, rows: print(rows)))
    >>> result = LocalRunner().run_topology(topology)
    [(('red', 7), 60000000)]
    """

    @property
    def key(self) -> object:
        """The key that this call is for."""

    @property
    def watermark(self) -> int:
        """The computation's input low watermark, microseconds UTC. It never decreases."""

    @property
    def wall_time(self) -> int:
        """The epoch's reading of the wall clock, microseconds UTC."""

    @property
    def values(self) -> DecodedValues:
        """Decoded values that this process keeps from bundle to bundle, of `state` and of pickles in cells."""

    def is_late(self, record: Record) -> bool:
        """Whether the record is behind the low watermark (paper §4.5)."""

    state: object
    """The key's persistent state. The first read decodes it or calls `Computation.initial_state`; the value at the end
    of the bundle is encoded and committed. None means no state: setting it frees the storage of the state."""

    def read(self, cell: bytes) -> bytes | None:
        """Contents of a cell: a named part of the key's storage, apart from `state`. None if the cell is not stored."""

    def write(self, cell: bytes, data: bytes | None) -> None:
        """Replace the contents of a cell; None deletes it. Raises `ValueError` unless the name has 1 to 400 bytes."""

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Name and contents of the key's cells whose names begin with `prefix`, by name; `state` is not among them."""

    def erase(self, prefix: bytes) -> None:
        """Delete all cells whose names begin with `prefix`; `state` is not among them."""

    def set_timer(
        self, tag: str, timestamp: int, domain: TimeDomain = TimeDomain.LOW_WATERMARK, hold: int | None = None
    ) -> None:
        """Fire `process_timer` once the domain's clock reaches `timestamp` (microseconds UTC).

        The timer replaces one of the same tag and domain. With `hold`, the output watermark stays at or below that
        event time until the timer has fired or is deleted. A timer whose time has come fires in this bundle.
        """

    def delete_timer(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> None:
        """Delete a timer and its hold; nothing happens if there is none."""

    def fire_early(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> None:
        """Fire a timer in this bundle, whatever time it is set for; nothing happens if it is not set."""

    def timer(self, tag: str, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> int | None:
        """The time at which the timer of this tag fires, microseconds UTC; None if it is not set."""

    def timers(self, domain: TimeDomain = TimeDomain.LOW_WATERMARK) -> Iterator[tuple[str, int]]:
        """Tag and time (microseconds UTC) of each of the key's timers of a domain, in no particular order."""

    def hold(self, timestamp: int, tag: str = "") -> None:
        """Keep the output watermark at or below `timestamp` until released; replaces the hold of the same tag."""

    def release(self, tag: str = "") -> None:
        """End a hold."""

    def produce(self, stream: str, value: object, timestamp: int | None = None) -> None:
        """Send a value to a stream. The default timestamp is that of the record or timer being processed."""

    def produce_batch(self, stream: str, batch: Batch) -> None:
        """Send many values to a stream at once."""

    def count(self, counter: str, n: int = 1) -> None:
        """Add `n` to a counter of this computation. Counts are part of the commit, so they are exact under retries."""

    def drop_late(self, n: int = 1, window: object | None = None) -> None:
        """Add `n` late records that were dropped to the counter `dropped_late`.

        The logger `headrace.late_data` names step, key, window (if it is given), watermark and `n` at level DEBUG.
        """


@named("Computation")
class Computation:
    """Code for one key at a time. Subclass it and override `process_record`, and `process_timer` if it sets timers.

    Calls for one key are serial; distinct keys run in parallel. Instances are copied to the workers and keep
    configuration only: everything that must last goes into the context's state, cells and timers.

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
    """Whether records with ids are checked against the ids of earlier deliveries. If False, no ids are kept, and a
    record that an injector delivers again is processed again (paper §6.1.3: for idempotent computations)."""
    strong_productions: bool = True
    """Whether productions become visible only with the commit of their epoch. If False, productions are weak: they
    leave before the commit and may come again, also with other content (paper §6.1.3: for idempotent consumers).
    `headrace.lowlevel.topology.weak_productions` says which productions can be weak."""
    state_coder: Coder = PickleCoder()
    """Encodes and decodes `context.state` (paper §4.4: the user's own serialization)."""
    private_state: bool = False
    """Whether the computation keeps no reference to `context.state` or a part of it after a call: not in another
    object, a production or another key's state. Decoding must give an object equal to the one that was encoded. A
    process may then reuse its decoded object instead of decoding the bytes again. That pays for kilobytes that are
    changed in place, such as a table of numbers; state that only grows belongs in cells (`Context.write`). Immutable
    state, such as tuples of numbers and frozen dataclasses, is reused without this promise."""

    def setup(self) -> None:
        """Called once in each process before the first bundle."""

    def start_bundle(self) -> None:
        """Called before the first key of a bundle; not at all if the bundle has neither records nor due timers."""

    def finish_bundle(self, emit: Emit) -> None:
        """Called after the last key of a bundle; may call `emit(stream, batch)` any number of times."""

    def teardown(self) -> None:
        """Called once in each process that was set up, when the run is over; not in a process that is killed."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything; if not, the engine may leave out the call."""
        return type(self).teardown is not Computation.teardown

    def state_signature(self) -> Mapping[str, str]:
        """The aspects that the meaning of stored state depends on, and their values, as texts for readers.

        A checkpoint keeps the signature. A changed program goes on with the stored state if it has every stored aspect
        with an equal value; it may add aspects. The signature is empty if nothing is ever stored. By default it has the
        names of the class and of the state coder; override it to rename the class, or to add aspects.

        >>> Computation().state_signature()
        {'class': 'Computation', 'state coder': 'PickleCoder'}
        """
        return {"class": public_name(type(self)), "state coder": coder_name(self.state_coder)}

    def take_over(self, context: IntervalContext) -> None:
        """Migrate state that another implementation of the same `state_signature` keeps in segments to state by key.

        Called before each bundle as long as the interval has segments. The bundle sees the changes in the context's
        delta as if they were committed. By default nothing is migrated.
        """

    def weak_streams(self, outputs: frozenset[str]) -> frozenset[str]:
        """The output streams that carry weak productions: all or none, unless it does the work of several steps."""
        return frozenset() if self.strong_productions else outputs

    def initial_state(self) -> object:
        """The value of `context.state` for a key without state."""
        return None

    def process_record(self, record: Record, context: Context) -> None:
        """Called for every record."""
        raise TypeError(f"{type(self).__name__} got a record but does not define process_record(record, context)")

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Called when a timer fires."""
        raise TypeError(f"{type(self).__name__} set a timer but does not define process_timer(timer, context)")

    def finish_key(self, context: Context) -> None:
        """Called after a key's last record and timer of the bundle, to write state that was kept in memory."""


@named("BundleComputation")
class BundleComputation(Computation):
    """A computation that takes all records of a key, stream and bundle in one call; otherwise as `Computation`.

    >>> class Doubled(BundleComputation):
    ...     def process_batch(self, stream, batch, context):
    ...         context.produce_batch("doubled", Batch([2 * value for value in batch.values], batch.timestamps))
    >>> from headrace.lowlevel import BoundedInjector, CallSink, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20)]))
    >>> topology.computation("double", Doubled(), {"numbers": lambda number: "all"}, ["doubled"])
    >>> topology.sink("print", "doubled", CallSink(lambda epoch, rows: print(rows)))
    >>> result = LocalRunner().run_topology(topology)
    [(2, 10), (4, 20)]
    """

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Called instead of `process_record`, with the records in order of delivery."""
        raise TypeError(f"{type(self).__name__} does not define process_batch(stream, batch, context)")


@named("InlineComputation")
class InlineComputation:
    """Stateless code that runs on whole batches where they are produced, without a key and without a shuffle.

    The engine's own addition to the paper's model: element-wise steps between two keyed computations need no
    shuffle, so they run in the task of their producer.

    >>> class Words(InlineComputation):
    ...     def process_batch(self, stream, batch, emit):
    ...         found = [(word, time) for line, time in batch.rows() for word in line.split()]
    ...         emit("words", Batch([word for word, _ in found], [time for _, time in found]))
    >>> from headrace.lowlevel import BoundedInjector, CallSink, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("lines", BoundedInjector([("to be", 1)]))
    >>> topology.inline("split", Words(), ["lines"], ["words"])
    >>> topology.sink("print", "words", CallSink(lambda epoch, rows: print(rows)))
    >>> result = LocalRunner().run_topology(topology)
    [('to', 1), ('be', 1)]
    """

    strong_productions: bool = True
    """See `Computation`."""
    counts_late: bool = True
    """Whether late records that it takes count as late for its step."""

    @property
    def sends_sums(self) -> bool:
        """Whether it sends sums of records and the like: a few numbers for each key and window of a bundle."""
        return False

    @property
    def is_pure(self) -> bool:
        """Whether it calls no function of the program for a record: it is quick, and has no side effects."""
        return False

    def setup(self) -> None:
        """Called once in each process before the first batch."""

    def begin_bundle(self, watermark: int) -> None:
        """Called before the first batch of a bundle.

        `watermark` is the low watermark of the keyed part of its step before this epoch, microseconds UTC;
        `MIN_TIMESTAMP` if there is no such part.
        """
        self.start_bundle()

    def start_bundle(self) -> None:
        """Called before the first batch of a bundle, by `begin_bundle`."""

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Process a batch of an input stream; may call `emit(stream, batch)` any number of times."""
        raise TypeError(f"{type(self).__name__} does not define process_batch(stream, batch, emit)")

    def finish_bundle(self, emit: Emit) -> None:
        """Called after the last batch of a bundle."""

    def loses_ids(self) -> bool:
        """Whether some output depends on more than one record, on the order of records or on chance.

        Such an output has no id by which it is recognised when an injector delivers the record again. By default, true
        if the class defines `finish_bundle`.
        """
        return type(self).finish_bundle is not InlineComputation.finish_bundle

    def teardown(self) -> None:
        """See `Computation`."""

    def has_teardown(self) -> bool:
        """See `Computation`."""
        return type(self).teardown is not InlineComputation.teardown

    def weak_streams(self, outputs: frozenset[str], weak_inputs: frozenset[str]) -> frozenset[str]:
        """See `Computation`. One that only passes records on can return the outputs of its weak inputs."""
        return frozenset() if self.strong_productions else outputs


class IntervalContext(Protocol):
    """State, clocks and productions of one interval, for an `IntervalComputation`; times are microseconds UTC."""

    hold: Mark | None
    """The oldest hold after the bundle, None if there is none; the computation sets it."""
    holder: bytes
    """Encoded key of that hold; the computation sets it."""
    next_wall_timer: int | None
    """Wall time of an epoch that runs even without records, None if none is needed; the computation sets it."""

    @property
    def name(self) -> str:
        """Name of the computation."""

    @property
    def outputs(self) -> frozenset[str]:
        """Streams that the computation declares."""

    @property
    def formats(self) -> Mapping[str, type]:
        """Output stream -> type of its records; streams that are not named take any value."""

    @property
    def aside(self) -> frozenset[str]:
        """Input streams that the low watermark does not wait for."""

    @property
    def key_coder(self) -> KeyCoder:
        """How keys become bytes."""

    @property
    def watermark_before(self) -> int:
        """Input low watermark of the previous epoch, at which records are processed."""

    @property
    def watermark(self) -> int:
        """Input low watermark of this epoch, at which timers fire."""

    @property
    def wall_time(self) -> int:
        """The epoch's reading of the wall clock."""

    @property
    def epoch(self) -> int:
        """Number of the epoch."""

    @property
    def interval(self) -> int:
        """Number of the key interval."""

    @property
    def store(self) -> StateStore:
        """Committed state of the interval."""

    @property
    def delta(self) -> Delta:
        """Changes of the bundle, not committed yet."""

    def emit(self, stream: str, batch: Batch) -> None:
        """Send a batch to a stream."""

    def put(self, name: bytes, segment: bytes) -> None:
        """Write a segment; replaces one of the same name."""

    def drop(self, name: bytes) -> None:
        """Delete a segment."""

    def count(self, counter: str, n: int = 1) -> None:
        """See `Context.count`."""

    def drop_late(self, number: int, dropped: Callable[[], Iterable[Dropped]]) -> None:
        """Count late records that were dropped at `watermark_before`, and log them at level DEBUG.

        `dropped` gives the same records by key and window; it is called only if they are logged.
        """

    def fresh(self, stream: str, ids: Sequence[bytes], timestamps: Sequence[int]) -> list[int]:
        """Indices of the records that were not processed before; journals their ids and counts duplicates."""

    def decoded(self, encoded_key: bytes) -> object:
        """The key, for errors and logs; its bytes if they cannot be decoded."""

    def failed(self, error: Exception, encoded_key: bytes) -> StepError:
        """The error to raise after a failure for one key; it names the step and the key."""


@named("IntervalComputation")
class IntervalComputation(Computation):
    """Takes all records of an interval and bundle in one call; reads the clocks itself instead of setting timers."""

    def process_interval(self, blocks: list[Block], context: IntervalContext) -> None:
        """Called in every epoch, also without records, as the watermark or the wall clock may have advanced.

        The list belongs to the computation, which may remove blocks to free their memory before the call ends.
        """
        raise TypeError(f"{type(self).__name__} does not define process_interval(blocks, context)")
