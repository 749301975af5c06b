"""Latency from 20 to 2,000 workers, simulated on measured costs (figure 14): `python -m benchmarks.simulation`.

No cluster is needed: what an epoch costs here is measured on this machine (`measure`), and what follows for more
workers is worked out from it. The input grows with the workers, as in the paper. Assumptions:

- One grouping, spread: level 0, a shuffle, level 1; a task of each level for every worker. The driver plans, starts the
  tasks one after the other, and when the last has ended it gathers their reports and commits.
- A task takes what it takes here: a fixed cost and one for each record, times a factor drawn from those that were
  measured (tasks of equal work in one process, so the noise of this machine is in it; collections of garbage are not,
  as they would look at what all tasks of the process have).
- Below `MANY_TASKS` workers each task of level 0 tells each of level 1 how far it is, so every task writes or reads a
  row for every worker: measured. From there on the driver tells each task, and only what a larger plan takes grows with
  the workers: measured, too, with more tasks than a task has records, so that there are no more blocks with more tasks.
  Shuffle blocks cost nothing more, and the network adds nothing to what a local disk and socket take.
- What the driver does for each worker (reports, watermarks, its file in the commit) is a straight line, as
  `benchmarks.driver_scale` finds from 20 to 2,000 tasks: measured there from 8 to 256 tasks, for one computation.
- Spark's driver starts a task in the time that one more empty task takes of a job on this machine, whose two cores run
  the driver and the task, too: an upper bound. The table has a second part for an executor that has the tasks already,
  as a task that stays does today for small epochs (`start` is 0): a limit, not something that the engine has.
- With a chance for each task and epoch a machine has a mishap and the task takes a second longer: the more machines,
  the more often one of them. The chance is an assumption, not measured; the table has several.
- Records arrive evenly; one waits for the epoch that runs, then for its own. Several drivers, trees of reports or
  anything else that the engine does not have is not assumed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Annotated

import numpy as np
import typer

from benchmarks.costs import parts, spark_epoch_seconds, spark_task_seconds, write_seconds
from benchmarks.driver_scale import driver_seconds
from benchmarks.report import console, print_table, rounded, save
from headrace.runners.engine.driver.running_topology import MANY_TASKS

WORKERS = (20, 50, 100, 200, 500, 1000, 2000)
MISHAPS = (0.0, 1e-5, 1e-4)
"""Chances for each task and epoch that it takes `_MISHAP_SECONDS` longer."""
_MISHAP_SECONDS = 1.0
_FEW, _MANY, _MORE = 8, 64, 256
"""Tasks of a level, of which differences tell what one more costs."""
_LITTLE, _MUCH = 20, 400
"""Records of a task."""
_EPOCHS = 400
_PER_EPOCH = 200
"""Records of each epoch whose latency is looked at."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured; seconds."""

    epoch: float
    """Of an epoch besides its tasks: planning, Spark's job and stages, an almost empty commit, delivery."""
    start: float
    """That the driver needs to start one more task, and to hear of its end."""
    reading: float
    """Of a task of level 0, besides its records and the rows that it sends."""
    keyed: float
    """Of a task of level 1, besides its records and the rows that it gets."""
    read_record: float
    keyed_record: float
    sent: float
    """Of a task of level 0, for each task of level 1, if tasks tell each other how far they are."""
    got: float
    """Of a task of level 1, for each task of level 0, if tasks tell each other how far they are."""
    report: float
    """Of the driver, for each worker: its tasks' reports and their part of the commit."""
    sent_if_many: float = 0.0
    """`sent` if the driver tells each task."""
    got_if_many: float = 0.0
    """`got` if the driver tells each task."""
    factors: tuple[float, ...] = (1.0,)
    """Measured times of equal tasks, divided by their median."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Of records, seconds."""

    median: float
    high: float
    """The 99th percentile."""
    epoch: float
    """Mean length of an epoch."""


def simulate(costs: Costs, workers: int, rate: float, mishap: float = 0.0, seed: int = 14) -> Latency:
    """Epoch after epoch, with `rate` records a second for each worker. The same for a seed.

    >>> costs = Costs(0.05, 0.0, 0.01, 0.01, 1e-6, 1e-5, 0.0, 0.0, 0.0)
    >>> few, many = simulate(costs, 20, 50), simulate(costs, 2000, 50)
    >>> few == simulate(costs, 20, 50), round(few.median / many.median, 1)
    (True, 1.0)
    """
    rng, arrivals = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    length, found, lengths = costs.epoch, [], []
    for _ in range(_EPOCHS):
        # What arrived during the epoch before: it waited for the rest of that, and then for this one.
        waited = arrivals.uniform(0, length, _PER_EPOCH)
        length = _epoch(costs, workers, rate * length, mishap, rng)
        found.append(waited + length)
        lengths.append(length)
    records = np.concatenate(found[_EPOCHS // 10 :])
    middle, high = np.quantile(records, (0.5, 0.99))
    return Latency(float(middle), float(high), float(np.mean(lengths)))


def _epoch(costs: Costs, workers: int, records: float, mishap: float, rng: np.random.Generator) -> float:
    """How long an epoch takes, with so many records for each worker."""
    sent, got = (costs.sent, costs.got) if workers < MANY_TASKS else (costs.sent_if_many, costs.got_if_many)
    reading = costs.reading + records * costs.read_record + workers * sent
    keyed = costs.keyed + records * costs.keyed_record + workers * got
    tasks = sum(_stage(costs, workers, work, mishap, rng) for work in (reading, keyed))
    return costs.epoch + tasks + workers * costs.report


def _stage(costs: Costs, workers: int, work: float, mishap: float, rng: np.random.Generator) -> float:
    """Until the last of a level's tasks has ended: they are started one after the other."""
    starts = costs.start * np.arange(1, workers + 1)
    takes = work * rng.choice(np.array(costs.factors), workers)
    mishaps = _MISHAP_SECONDS * (rng.random(workers) < mishap)
    return float(np.max(starts + takes + mishaps))


def measure() -> Costs:
    """Measure on this machine; a minute or two."""
    few, many, full = (
        parts(tasks, records, many_tasks=1000) for tasks, records in ((_FEW, _LITTLE), (_MANY, _LITTLE), (_FEW, _MUCH))
    )
    told = parts(_MANY, _LITTLE, many_tasks=1), parts(_MORE, _LITTLE, many_tasks=1)
    small, more = (median(its) for its in (few.reading, full.reading))
    small_keyed, more_keyed = (median(its) for its in (few.keyed, full.keyed))
    sent, got = (_each(few.reading, many.reading, _MANY - _FEW), _each(few.keyed, many.keyed, _MANY - _FEW))
    read_record = max(0.0, more - small) / (_MUCH - _LITTLE)
    keyed_record = max(0.0, more_keyed - small_keyed) / (_MUCH - _LITTLE)
    reading = max(0.0, small - _LITTLE * read_record - _FEW * sent)
    worked = max(0.0, small_keyed - _LITTLE * keyed_record - _FEW * got)
    # A task reports when its file is on the disk.
    keyed = worked + write_seconds()
    middle = median(many.keyed)
    return Costs(
        epoch=max(0.0, spark_epoch_seconds() - reading - keyed),
        start=spark_task_seconds(),
        reading=reading,
        keyed=keyed,
        read_record=read_record,
        keyed_record=keyed_record,
        sent=sent,
        got=got,
        report=(mean(driver_seconds(_MORE, 1, levels=1)) - mean(driver_seconds(_FEW, 1, levels=1))) / (_MORE - _FEW),
        sent_if_many=_each(*(its.reading for its in told), _MORE - _MANY),
        got_if_many=_each(*(its.keyed for its in told), _MORE - _MANY),
        factors=tuple(round(each / middle, 3) for each in many.keyed),
    )


def _each(few: Sequence[float], many: Sequence[float], more: int) -> float:
    """What one more task costs, out of what few cost, and so many more."""
    return max(0.0, median(many) - median(few)) / more


def main(
    costs: Annotated[Path | None, typer.Option(help="measured costs (JSON) to use; else they are measured")] = None,
    rate: Annotated[float, typer.Option(help="records a second for each worker")] = 500.0,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/simulation.json"),
) -> None:
    """Measure, simulate and draw."""
    measured = measure() if costs is None else _read(costs)
    console.print("measured, ms:", {name: _told(value) for name, value in asdict(measured).items()})
    found = {chance: [simulate(measured, workers, rate, chance) for workers in WORKERS] for chance in MISHAPS}
    _print(found, rate)
    waiting = replace(measured, start=0.0)
    _print(
        {chance: [simulate(waiting, workers, rate, chance) for workers in WORKERS] for chance in MISHAPS}, rate, True
    )
    told = {str(chance): [asdict(each) for each in its] for chance, its in found.items()}
    save(output, {"benchmark": "simulation", "rate": rate, "workers": WORKERS, "costs": asdict(measured), "s": told})


def _read(path: Path) -> Costs:
    stored = json.loads(path.read_text())["costs"]
    return Costs(**{**stored, "factors": tuple(stored["factors"])})


def _told(value: float | Sequence[float]) -> str:
    if isinstance(value, float):
        return f"{1000 * value:.4g}"
    return f"{len(value)} factors, {min(value):.2f} to {max(value):.2f}"


def _print(found: dict[float, list[Latency]], rate: float, is_started: bool = False) -> None:
    rows = []
    for number, workers in enumerate(WORKERS):
        row = [str(workers)]
        for its in found.values():
            row += [rounded(1000 * its[number].median), rounded(1000 * its[number].high)]
        rows.append(row)
    columns = ["workers", *(f"{label}, mishap {chance:g}" for chance in found for label in ("median ms", "99th %"))]
    title = f"Figure 14, simulated: {rate:g} records a second for each worker"
    print_table(f"{title}, if tasks need no start" if is_started else title, columns, rows)


if __name__ == "__main__":
    typer.run(main)
