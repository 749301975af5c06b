"""What weak productions and doing without exactly-once save: `python -m benchmarks.productions`.

The four combinations of MillWheel's figure 13 (strong or weak, exactly once or at least once), one stage deep and
three, take turns in one Spark session, fed at the same pace; and a sink that sometimes takes seconds: what that costs
the other records with and without the checkpoint for stragglers (figure 11). Then strong and weak stages side by side
in one pipeline: what the same record gains in the same epoch, whatever else the machine does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated

import typer

from benchmarks import paced
from benchmarks.paced import Guarantees, Run
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import CORES, start_session

_FULL = Guarantees(is_strong=True, exactly_once=True)
_COMBINATIONS = [Guarantees(strong, once) for strong in (True, False) for once in (True, False)]
_DEPTHS = (1, 3)
_SLOW = (4000, 3.0)
"""Of every so many records the sink takes so many seconds for one."""
_WAITS_FOR_ALL = 60.0
_NEVER = "never"

_PAIRS = {"behind the only stage": (1, 1), "behind the last of three": (3, 3), "behind the first of three": (3, 1)}
"""Sink -> depth, and the stage that it is behind."""

Runs = dict[str, list[Run]]


def main(
    runs: Annotated[int, typer.Option(min=1, help="rounds; five or more for figures to quote")] = 5,
    rate: Annotated[int, typer.Option(help="records a second")] = 1000,
    seconds: Annotated[float, typer.Option(help="how long a run is fed; its first quarter does not count")] = 8.0,
    turns: Annotated[bool, typer.Option(help="whether to measure what takes turns, too")] = True,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/productions.json"),
) -> None:
    """Measure delay and processor time."""
    start_session()
    for depth in _DEPTHS:
        paced.run(rate, 3.0, depth, _FULL)
    console.print(f"warm, measuring {runs} rounds on {CORES} cores")
    cases: dict[str, Callable[[], Run]] = {}
    for depth in _DEPTHS:
        for guarantees in _COMBINATIONS:
            cases[f"depth {depth}: {guarantees}"] = partial(paced.run, rate, seconds, depth, guarantees)
    weak = Guarantees(is_strong=False, exactly_once=True)
    for name, delay in ((_NEVER, _WAITS_FOR_ALL), ("after 1 s", 1.0), ("after 0.1 s", 0.1)):
        cases[_slow_sink(name)] = partial(paced.run, rate, 2 * seconds, 1, weak, delay, _SLOW)
    measured: Runs = {name: [] for name in cases}
    gained: dict[str, list[tuple[float, float, float]]] = {name: [] for name in _PAIRS}
    for _ in range(runs):
        for name, case in cases.items() if turns else ():
            measured[name].append(case())
        for name, (depth, tap) in _PAIRS.items():
            gained[name].append(_gain(paced.side_by_side(rate, seconds, depth, tap)))
    if turns:
        _print(measured, rate)
    _print_gains(gained)
    figures = {name: [_figures(run, rate) for run in its] for name, its in measured.items()}
    told = {"benchmark": "productions", "runs": runs, "rate": rate, "seconds": seconds}
    save(output, told | {"figures": figures, "gains": gained})


def _gain(delays: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Median delay of the strong and of the weak ones, and of the differences; ms."""
    strong, weak = zip(*delays, strict=True)
    return 1000 * median(strong), 1000 * median(weak), 1000 * median(one - other for one, other in delays)


def _print_gains(gained: dict[str, list[tuple[float, float, float]]]) -> None:
    rows = [[name, *(rounded(median(column)) for column in zip(*its, strict=True))] for name, its in gained.items()]
    columns = ["sink", "strong, median ms", "weak, median ms", "gained, median ms"]
    print_table("Strong and weak side by side in the same epochs", columns, rows)


def _figures(run: Run, rate: int) -> dict[str, float]:
    """Of one run: delays in ms, processor time in ms for a record, epochs."""
    return {
        "median": 1000 * median(run.delays),
        "95th": 1000 * quantiles(run.delays, n=20)[-1],
        "processor": 1000 * run.processor / (len(run.delays) * 4 / 3),
        "epochs": run.epochs,
    }


def _print(measured: Runs, rate: int) -> None:
    rows = []
    for name, runs in measured.items():
        its = [_figures(run, rate) for run in runs]
        base = [_figures(run, rate) for run in measured[_base(name)]]
        row = [name]
        for figure in ("median", "95th", "processor"):
            ratio = median(mine[figure] / other[figure] for mine, other in zip(its, base, strict=True))
            row += [rounded(median(each[figure] for each in its)), f"× {rounded(ratio)}"]
        rows.append([*row, rounded(median(each["epochs"] for each in its))])
    columns = ["", "median ms", "", "95th %", "", "processor ms a record", "", "epochs"]
    notes = "Delay: from when a record was due until the sink's function has it. Ratios: to the first of the same kind."
    print_table(f"Productions at {rate} records a second", columns, rows, notes)


def _slow_sink(checkpoint: str) -> str:
    return f"slow sink, straggler checkpoint {checkpoint}"


def _base(name: str) -> str:
    """What a case is compared with."""
    if name.startswith("slow"):
        return _slow_sink(_NEVER)
    return f"{name.partition(':')[0]}: {_FULL}"


if __name__ == "__main__":
    typer.run(main)
