"""What an almost empty epoch costs, beside Spark's own micro-batches: `python -m benchmarks.floor`.

Everything runs in one Spark session. Systems take turns of five steps with ten events each, so that all see the same
noise of the machine; the first turns only warm up, and so do the first steps of a turn. Between its turns ours has no
task that stays, as that would hold one of the session's slots.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Protocol

import typer

from benchmarks.measurement import Measurement
from benchmarks.micro_batch import MicroBatches, stateful, stateless, stateless_python
from benchmarks.report import console, print_table, rounded, save
from benchmarks.session import DEFAULT_MANAGER, QUICK_MANAGER, start_session
from benchmarks.tiny_epoch import TinyEpochs

OURS = "Headrace: one grouping, state, durable checkpoint"
_WARM_UP = 10
_TURN = 5
"""Steps that a system takes before the next one's turn."""
_EVENTS = 10


class System(Protocol):
    """Something that takes steps."""

    name: str

    def begin(self) -> None:
        """Take the first steps of a turn, which do not count."""

    def step(self) -> float:
        """Take one, and say how many seconds it took."""

    def rest(self) -> None:
        """Leave the session's slots to the others."""

    def close(self) -> None:
        """Stop."""


def main(
    runs: Annotated[int, typer.Option(min=2, help="measured steps")] = 15,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/floor.json"),
) -> None:
    """Step our engine and Spark's queries in turn and compare."""
    start_session()
    measured = in_turn(_systems(), runs)
    _print(measured)
    save(output, {"benchmark": "floor", "runs": runs, "seconds": {each.name: each.seconds for each in measured}})


def in_turn(given: Iterable[System], runs: int) -> list[Measurement]:
    """Seconds of each system's steps; they take turns, and are closed in the end."""
    with ExitStack() as stack:
        systems = [stack.enter_context(closing(system)) for system in given]
        for system in systems:
            for _ in range(_WARM_UP):
                system.step()
            system.rest()
        console.print(f"warm after {_WARM_UP} steps of {len(systems)} systems, measuring {runs}")
        measured = [Measurement(system.name, _EVENTS) for system in systems]
        for taken in range(0, runs, _TURN):
            for system, measurement in zip(systems, measured, strict=True):
                system.begin()
                measurement.seconds += [system.step() for _ in range(min(_TURN, runs - taken))]
                system.rest()
    return measured


def _systems() -> list[System]:
    queries = {
        "transformWithState": stateful,
        "foreachBatch": stateless,
        "foreachBatch with a Python map": stateless_python,
    }
    managers = {"quick manager": QUICK_MANAGER, "default manager": DEFAULT_MANAGER}
    return [
        TinyEpochs(OURS),
        *(
            MicroBatches(f"{name}, {label}", build, manager)
            for name, build in queries.items()
            for label, manager in managers.items()
        ),
    ]


def _print(measured: list[Measurement]) -> None:
    ours = measured[0]
    rows = []
    for each in measured:
        tenths = quantiles(each.seconds, n=10)
        ratio = "" if each is ours else f"× {rounded(1 / ours.times_faster(each))}"
        rows.append([each.name, *(rounded(1000 * figure) for figure in (each.median, tenths[0], tenths[-1])), ratio])
    columns = ["step of ten events", "median ms", "10th percentile", "90th percentile", "ours is"]
    notes = (
        "Spark's: triggerExecution of the micro-batch. Ours: from planning an epoch until the next can be planned.\n"
        "foreachBatch: a stateless query. Manager: how Spark writes its checkpoint files; the default starts processes."
    )
    print_table("An almost empty step", columns, rows, notes)


if __name__ == "__main__":
    typer.run(main)
