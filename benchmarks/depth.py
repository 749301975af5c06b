"""What a deep pipeline costs: 1, 2, 4 and 8 groupings in a row, almost no input: `python -m benchmarks.depth`.

As in `benchmarks.floor` systems take turns of a few steps with ten events each. Spark's stateful micro-batch, of one
grouping, and its stateless one with a Python function stand beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.floor import System, in_turn
from benchmarks.measurement import Measurement
from benchmarks.micro_batch import MicroBatches, stateful, stateless_python
from benchmarks.report import print_table, rounded, save
from benchmarks.session import QUICK_MANAGER, start_session
from benchmarks.tiny_epoch import TinyEpochs

DEPTHS = (1, 2, 4, 8)


def main(
    runs: Annotated[int, typer.Option(min=2, help="measured steps")] = 15,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/depth.json"),
) -> None:
    """Step pipelines of all depths in turn."""
    start_session()
    ours: list[System] = [TinyEpochs(f"Headrace: {depth} in a row", depth) for depth in DEPTHS]
    theirs: list[System] = [
        MicroBatches("transformWithState, quick manager", stateful, QUICK_MANAGER),
        MicroBatches("foreachBatch with a Python map, quick manager", stateless_python, QUICK_MANAGER),
    ]
    measured = in_turn([*ours, *theirs], runs)
    _print(measured)
    save(output, {"benchmark": "depth", "runs": runs, "seconds": {each.name: each.seconds for each in measured}})


def _print(measured: list[Measurement]) -> None:
    first = measured[0]
    rows = []
    for number, each in enumerate(measured):
        further = ""
        if 0 < number < len(DEPTHS):
            further = rounded((each.median - first.median) / (DEPTHS[number] - 1) / first.median)
        rows.append([each.name, rounded(1000 * each.median), f"× {rounded(first.times_faster(each))}", further])
    columns = ["step of ten events", "median ms", "of one grouping of ours", "a further grouping adds"]
    print_table("Groupings in a row", columns, rows, "Added: as a share of an epoch with one grouping.")


if __name__ == "__main__":
    typer.run(main)
