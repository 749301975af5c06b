"""What a run says of itself: sums over its epochs, and how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.lowlevel.metric import Cells
from headrace.lowlevel.sink import TapSink
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.journal import State
from headrace.runners.engine.laps import Laps
from headrace.runners.engine.options import Progress

Counters = dict[str, dict[str, int]]
"""Computation, injector stream or sink -> counter -> amount."""


def progress_of(topology: Topology, state: State, metrics: Cells, laps: Laps) -> Progress:
    """How far a run is after an epoch of these laps."""
    of = state.counters
    return Progress(
        epoch=state.epoch,
        records_in=_total(of, topology.injectors, "records"),
        records_out=_total(of, _outputs(topology), "rows"),
        late=_total(of, topology.keyed, "late"),
        dropped=_total(of, topology.keyed, "dropped_late"),
        watermark=min(state.watermarks.values(), default=MAX_TIMESTAMP),
        clock=state.clock,
        greatest=max((progress.greatest for progress in state.injectors.values()), default=MIN_TIMESTAMP),
        seconds=laps.total(),
        metrics=metrics,
        phases=laps.seconds,
    )


def _outputs(topology: Topology) -> Iterable[str]:
    """The program's own sinks."""
    return (name for name, (_, sink) in topology.sinks.items() if not isinstance(sink, TapSink))


def _total(counters: Counters, names: Iterable[str], counter: str) -> int:
    return sum(counters.get(name, {}).get(counter, 0) for name in names)


def summed(old: Mapping[str, Mapping[str, int]], new: Mapping[str, Mapping[str, int]]) -> Counters:
    """Counters with another epoch's on top.

    >>> summed({"count": {"records": 2}}, {"count": {"records": 1, "late": 1}})
    {'count': {'records': 3, 'late': 1}}
    """
    total = {name: dict(counters) for name, counters in old.items()}
    for name, counters in new.items():
        sums = total.setdefault(name, {})
        for counter, amount in counters.items():
            sums[counter] = sums.get(counter, 0) + amount
    return total
