"""What the engine itself measures of each step, in the form of metrics (namespace `headrace`).

Sums are the counters of the commit; watermarks, lags and sizes are gauges as of the last epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lowlevel.metric import ENGINE, Cell, Cells, CounterCell, GaugeCell, Metric
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.journal import State


def measured(topology: Topology, state: State, sizes: Mapping[str, int]) -> Cells:
    """Measures by step: computation, injector stream or sink.

    Args:
        topology: What runs.
        state: As of the last commit.
        sizes: Computation -> bytes of state that the last epoch began with.
    """
    cells: Cells = {}
    for name, counters in state.counters.items():
        renamed = {_renamed(topology, name, counter): amount for counter, amount in counters.items()}
        cells[name] = {_metric("counter", counter): CounterCell(amount) for counter, amount in renamed.items()}
    greatest = max((progress.greatest for progress in state.injectors.values()), default=MIN_TIMESTAMP)
    for name, watermark in state.watermarks.items():
        cells.setdefault(name, {}).update(_progress(watermark, greatest, state.clock))
    for stream, progress in state.injectors.items():
        cells.setdefault(stream, {}).update(_progress(progress.watermark, progress.greatest, state.clock))
    for name, size in sizes.items():
        cells.setdefault(name, {})[_metric("gauge", "state_bytes")] = GaugeCell(size, state.clock)
    return cells


def _renamed(topology: Topology, name: str, counter: str) -> str:
    """The counter's name from where the records are seen: what an injector reads, it puts out."""
    if counter == "records":
        return "records_out" if name in topology.injectors else "records_in"
    return "records_in" if counter == "rows" and name in topology.sinks else counter


def _progress(watermark: int, greatest: int, clock: int) -> dict[Metric, Cell]:
    """Watermark and lag, microseconds; no lag before the first record."""
    cells: dict[Metric, Cell] = {_metric("gauge", "watermark"): GaugeCell(watermark, clock)}
    if MIN_TIMESTAMP not in (watermark, greatest):
        lag = 0 if watermark == MAX_TIMESTAMP else max(0, greatest - watermark)
        cells[_metric("gauge", "lag")] = GaugeCell(lag, clock)
    return cells


def _metric(kind: str, name: str) -> Metric:
    return Metric(kind, ENGINE, name)
