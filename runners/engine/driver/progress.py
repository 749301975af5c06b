"""Progress and metrics of a run: durations of the parts of an epoch, measures of each step, totals over all epochs.

Measures are metrics in the namespace `headrace`: sums are the counters of the commit; watermarks, lags and sizes are
gauges as of the last epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.lowlevel.injectors.injector import Delivery
from headrace.lowlevel.metric import ENGINE, MetricValues, TypedMetricName
from headrace.lowlevel.metric_cells import Cell, CounterCell, GaugeCell
from headrace.lowlevel.sinks.sink import TapSink
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.propagation import InjectorProgress
from headrace.runners.engine.driver.journal import JournalState
from headrace.runners.engine.messages import add_counters
from headrace.runners.engine.options import EpochProgress, LatencyHistogram

Counters = dict[str, dict[str, int]]
"""Computation, injector stream or sink -> counter -> amount."""


@dataclass(slots=True)
class EpochTiming:
    """Durations of the consecutive parts of an epoch, in seconds by name.

    >>> timing = EpochTiming()
    >>> timing.end("tasks")
    >>> list(timing.seconds)
    ['tasks']
    """

    began: float = field(default_factory=time.perf_counter)
    seconds: dict[str, float] = field(default_factory=dict)
    sinks: dict[str, float] = field(default_factory=dict)
    """Sink -> seconds for which it has delivered."""
    hot_keys: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    """See `EpochProgress`."""
    fill: float | None = None
    """See `EpochProgress`."""
    latencies: Mapping[str, LatencyHistogram] = field(default_factory=dict)
    """See `EpochProgress`."""
    _last: float = 0.0

    def __post_init__(self) -> None:
        self._last = self.began

    def end(self, name: str) -> None:
        """End a part: the time since the end of the part before belongs to `name`."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now

    def total(self) -> float:
        """Seconds since the start of the epoch."""
        return time.perf_counter() - self.began


def progress_of(
    topology: Topology, state: JournalState, metrics: MetricValues, timing: EpochTiming | None = None
) -> EpochProgress:
    """The progress of a run after an epoch with these durations; without them, of a run that goes on from it."""
    counters = state.counters
    return EpochProgress(
        epoch=state.epoch,
        records_in=_total(counters, topology.injectors, "records"),
        records_out=_total(counters, _outputs(topology), "rows"),
        late=_total(counters, topology.keyed, "late"),
        dropped=_total(counters, topology.keyed, "dropped_late"),
        watermark=min(state.watermarks.values(), default=MAX_TIMESTAMP),
        clock=state.clock,
        greatest=max((progress.greatest for progress in state.injectors.values()), default=MIN_TIMESTAMP),
        seconds=0.0 if timing is None else timing.total(),
        metrics=metrics,
        phases={} if timing is None else timing.seconds,
        sinks={} if timing is None else timing.sinks,
        hot_keys={} if timing is None else timing.hot_keys,
        fill=None if timing is None else timing.fill,
        counters=counters,
        watermarks=state.watermarks,
        latencies={} if timing is None else timing.latencies,
    )


def hot_keys(
    dominant: Mapping[str, Mapping[bytes, int]], counters: Mapping[str, Mapping[str, int]]
) -> dict[str, tuple[bytes, float]]:
    """Computation -> key with more than half of its records, and the share, of keys that dominate blocks.

    >>> hot_keys({"sum": {b"a": 950}, "count": {b"b": 500}}, {"sum": {"records": 1000}, "count": {"records": 2000}})
    {'sum': (b'a', 0.95)}
    """
    found = {}
    for name, counts in dominant.items():
        key = max(counts, key=counts.__getitem__)
        records = counters.get(name, {}).get("records", 0)
        if 2 * counts[key] > records > 0:
            found[name] = key, min(1.0, counts[key] / records)
    return found


def with_latencies(
    before: Mapping[str, LatencyHistogram], read: Mapping[str, int], seconds: float
) -> dict[str, LatencyHistogram]:
    """Latencies by stream, with those of an epoch that has read so many records of each stream.

    >>> after = with_latencies({}, {"clicks": 5, "views": 0}, 0.5)
    >>> {stream: histogram.sum for stream, histogram in after.items()}
    {'clicks': 2.5}
    """
    added = {
        stream: before.get(stream, LatencyHistogram()).plus(seconds, records)
        for stream, records in read.items()
        if records
    }
    return {**before, **added}


def _outputs(topology: Topology) -> Iterable[str]:
    """Names of the sinks of the program, without taps."""
    return (name for name, (_, sink) in topology.sinks.items() if not isinstance(sink, TapSink))


def _total(counters: Counters, names: Iterable[str], counter: str) -> int:
    return sum(counters.get(name, {}).get(counter, 0) for name in names)


def summed(old: Mapping[str, Mapping[str, int]], new: Mapping[str, Mapping[str, int]]) -> Counters:
    """The sums of two sets of counters, as a new dict.

    >>> summed({"count": {"records": 2}}, {"count": {"records": 1, "late": 1}})
    {'count': {'records': 3, 'late': 1}}
    """
    total = {name: dict(counters) for name, counters in old.items()}
    for name, counters in new.items():
        add_counters(total, name, counters)
    return total


def engine_metrics(
    counters: Mapping[str, Mapping[str, int]],
    watermarks: Mapping[str, int],
    injectors: Mapping[str, InjectorProgress],
    clock: int,
    sizes: Mapping[str, int],
) -> MetricValues:
    """The metrics of the engine by step: computation, injector stream or sink.

    Args:
        counters: The counters of a commit.
        watermarks: Computation -> its input watermark at the commit.
        injectors: The progress of each injector at the commit.
        clock: The wall clock of the commit.
        sizes: Computation -> bytes of state at the start of the last epoch.
    """
    cells: MetricValues = {}
    for name, amounts in counters.items():
        renamed = {_metric_of(counter, name in injectors): amount for counter, amount in amounts.items()}
        cells[name] = {_metric("counter", metric): CounterCell(amount) for metric, amount in renamed.items()}
    greatest = max((progress.greatest for progress in injectors.values()), default=MIN_TIMESTAMP)
    for name, watermark in watermarks.items():
        cells.setdefault(name, {}).update(_progress(watermark, greatest, clock))
    for stream, progress in injectors.items():
        cells.setdefault(stream, {}).update(_progress(progress.watermark, progress.greatest, clock))
    for name, size in sizes.items():
        cells.setdefault(name, {})[_metric("gauge", "state_bytes")] = GaugeCell(size, clock)
    return cells


def with_backlogs(metrics: MetricValues, deliveries: Mapping[str, Delivery], clock: int) -> MetricValues:
    """Metrics with the `backlog` of the injectors that know it, for the commit of an epoch at this wall-clock time.

    It is committed with the epoch, as no later reader of a commit can ask the source. An injector that does not tell
    this time keeps its last one; that of an injector which the topology has no longer is left out.

    >>> before = with_backlogs({}, {"clicks": Delivery([], 7, backlog=30), "old": Delivery([], 7, backlog=9)}, 5)
    >>> after = with_backlogs(before, {"clicks": Delivery([], 8)}, 6)
    >>> [(step, metric.name, cell) for step, cells in after.items() for metric, cell in cells.items()]
    [('clicks', 'backlog', GaugeCell(value=30, timestamp=5))]
    """
    name = _metric("gauge", "backlog")
    kept: MetricValues = {
        step: {metric: cell for metric, cell in cells.items() if step in deliveries or metric != name}
        for step, cells in metrics.items()
    }
    for stream, delivery in deliveries.items():
        if delivery.backlog is not None:
            kept.setdefault(stream, {})[name] = GaugeCell(delivery.backlog, clock)
    return kept


def _metric_of(counter: str, is_injector: bool) -> str:
    """The metric of a counter: records of an injector are its output; records of other steps, and rows, are input."""
    if counter == "records":
        return "records_out" if is_injector else "records_in"
    return "records_in" if counter == "rows" else counter


def _progress(watermark: int, greatest: int, clock: int) -> dict[TypedMetricName, Cell]:
    """Watermark and lag, microseconds; no lag before the first record."""
    cells: dict[TypedMetricName, Cell] = {_metric("gauge", "watermark"): GaugeCell(watermark, clock)}
    if MIN_TIMESTAMP not in (watermark, greatest):
        lag = 0 if watermark == MAX_TIMESTAMP else max(0, greatest - watermark)
        cells[_metric("gauge", "lag")] = GaugeCell(lag, clock)
    return cells


def _metric(kind: str, name: str) -> TypedMetricName:
    return TypedMetricName(kind, ENGINE, name)
