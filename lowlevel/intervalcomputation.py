"""A computation of all keys of an interval at once, by columns; the guarantees are those of `Computation`.

The engine's own addition to the paper's model: user code sees one key at a time, but what the engine itself does with a
key, such as adding numbers up, it can do for all keys of a bundle in a few passes over columns. State is kept in
segments (`headrace.lowlevel.segment`): a bundle appends what is new, and reads what is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from headrace.lowlevel.computation import Computation
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.idspace import space_of
from headrace.lowlevel.metric import ENGINE, Metric, report
from headrace.lowlevel.record import Batch, Emit
from headrace.lowlevel.state import Copy, Delta, Mark

if TYPE_CHECKING:
    from headrace.lowlevel.parcel import Parcel
    from headrace.lowlevel.topology import Keyed

_RECORDS_OUT = Metric("counter", ENGINE, "records_out")


class Clocks(Protocol):
    """What a context needs to know of its bundle; times in microseconds UTC."""

    watermark_before: int
    watermark: int
    wall_time: int
    epoch: int
    interval: int


class IntervalContext:
    """What an `IntervalComputation` reaches while it runs for an interval."""

    def __init__(
        self, place: Keyed, copy: Copy, emit: Emit, bundle: Clocks, id_slacks: Mapping[str, int] | None = None
    ) -> None:
        self.delta = Delta()
        self.counters: dict[str, int] = {}
        self.hold: Mark | None = None
        """The oldest hold that is left."""
        self.holder = b""
        """Encoded key of that."""
        self.next_wall_timer: int | None = None
        """When it wants to be called next even if nothing comes: a wall time, microseconds UTC."""
        self.wall_time = bundle.wall_time
        self.watermark_before, self.watermark = bundle.watermark_before, bundle.watermark
        self.epoch, self.interval = bundle.epoch, bundle.interval
        self.copy = copy
        self.key_coder = place.key_coder
        self.place = place
        self._emit = emit
        self._id_slacks = id_slacks or {}

    def emit(self, stream: str, batch: Batch) -> None:
        """Send a batch to a stream."""
        if len(batch):
            report(_RECORDS_OUT, len(batch))
            self._emit(stream, batch)

    def put(self, name: bytes, segment: bytes) -> None:
        """Keep a segment."""
        self.delta.segments[name] = segment

    def drop(self, name: bytes) -> None:
        """Take a segment away."""
        self.delta.segments[name] = None

    def count(self, counter: str, n: int = 1) -> None:
        """See `Context.count`."""
        self.counters[counter] = self.counters.get(counter, 0) + n

    def journal_of(self, stream: str) -> Callable[[bytes, int], bool]:
        """A function that remembers the id of a record with its timestamp; False if it is known: a duplicate."""
        slack, space, ids, copy = self._id_slacks.get(stream, 0), space_of(stream), self.delta.ids, self.copy

        def journal(record_id: bytes, timestamp: int) -> bool:
            name = space + record_id
            if name in ids or (copy.may_know_id(name) and copy.knows_id(name)):
                self.count("duplicates")
                return False
            ids[name] = timestamp + slack
            return True

        return journal

    def failed(self, error: Exception, encoded_key: bytes) -> StepError:
        """The error to raise where work for one key has failed; without it, nobody learns for which."""
        try:
            key = self.key_coder.decode(encoded_key)
        except Exception:
            key = encoded_key
        return failed_step(error, self.place.name, key, None)


class IntervalComputation(Computation):
    """Takes all records of an interval and bundle in one call; it sets no timers but looks at the clocks itself."""

    def process_interval(self, parcels: list[Parcel], context: IntervalContext) -> None:
        """Called in every epoch, also without records: the watermark or the wall clock may have moved.

        The list is the computation's own: what it takes out of it can go before the call ends.
        """
        raise TypeError(f"{type(self).__name__} does not define process_interval(parcels, context)")
