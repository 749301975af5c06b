"""The context of interval computations: committed state of the interval, changes of the bundle, productions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.metric import ENGINE, TypedMetricName, report
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.records.late_data import Dropped, drop_late
from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.state.id_journal import IdJournal
from headrace.lowlevel.state.state_store import Delta, Mark, StateStore
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.user_errors import failed_step

_RECORDS_OUT = TypedMetricName("counter", ENGINE, "records_out")


class BundleIntervalContext:
    """The `IntervalContext` of one bundle."""

    def __init__(
        self, node: Keyed, store: StateStore, emit: Emit, bundle: Bundle, id_slacks: Mapping[str, int] | None = None
    ) -> None:
        self.delta = Delta()
        self.counters: dict[str, int] = {}
        self.hold: Mark | None = None
        self.holder = b""
        self.next_wall_timer: int | None = None
        self.wall_time = bundle.wall_time
        self.watermark_before, self.watermark = bundle.watermark_before, bundle.watermark
        self.epoch, self.interval = bundle.epoch, bundle.interval
        self.store = store
        self.name, self.key_coder = node.name, node.key_coder
        self.outputs, self.formats, self.aside = node.outputs, node.formats, node.aside
        self._emit = emit
        self._journal = IdJournal(store, self.delta, id_slacks or {}, self.counters)

    def emit(self, stream: str, batch: Batch) -> None:
        """See `IntervalContext`."""
        if len(batch):
            report(_RECORDS_OUT, len(batch))
            self._emit(stream, batch)

    def put(self, name: bytes, segment: bytes) -> None:
        """See `IntervalContext`."""
        self.delta.segments[name] = segment

    def drop(self, name: bytes) -> None:
        """See `IntervalContext`."""
        self.delta.segments[name] = None

    def count(self, counter: str, n: int = 1) -> None:
        """See `IntervalContext`."""
        self.counters[counter] = self.counters.get(counter, 0) + n

    def drop_late(self, number: int, dropped: Callable[[], Iterable[Dropped]]) -> None:
        """See `IntervalContext`."""
        drop_late(self.counters, self.name, self.watermark_before, number, dropped)

    def fresh(self, stream: str, ids: Sequence[bytes], timestamps: Sequence[int]) -> list[int]:
        """See `IntervalContext`."""
        return self._journal.fresh(stream, ids, timestamps)

    def decoded(self, encoded_key: bytes) -> object:
        """See `IntervalContext`."""
        try:
            return self.key_coder.decode(encoded_key)
        except Exception:
            return encoded_key

    def failed(self, error: Exception, encoded_key: bytes) -> StepError:
        """See `IntervalContext`."""
        return failed_step(error, self.name, self.decoded(encoded_key), None)
