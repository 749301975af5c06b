"""Programs with type annotations pass a strict type check, and mistakes in them are found."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from mypy import api

pytestmark = pytest.mark.slow

PROGRAM = """
    from collections.abc import Iterable, Iterator

    import headrace as beam
    from headrace.lowlevel import Computation, Topology
    from headrace.metrics import Metrics


    class Sum(beam.CombineFn[int, int, str]):
        def create_accumulator(self) -> int:
            return 0

        def add_input(self, accumulator: int, element: int) -> int:
            return accumulator + element

        def merge_accumulators(self, accumulators: Iterable[int]) -> int:
            return sum(accumulators)

        def extract_output(self, accumulator: int) -> str:
            return str(accumulator)


    class Pairs(beam.DoFn):
        def process(self, element: int) -> Iterator[tuple[str, int]]:
            Metrics.counter("test", "pairs").inc()
            yield str(element), element


    def key(pair: tuple[str, int]) -> str:
        return pair[0]


    def total(values: Iterable[int]) -> int:
        return sum(values)


    p = beam.Pipeline("LocalRunner")
    pairs = p | beam.Create([1, 2]) | beam.ParDo(Pairs())
    pairs | beam.CombinePerKey(Sum()) | beam.Map(len)
    pairs | beam.CombinePerKey(total)
    pairs | beam.Values() | beam.CombineGlobally(Sum())
    pairs | beam.GroupByKey() | beam.CombineValues(Sum())
    pairs | beam.CombinePerKey(beam.combiners.SingleInputTupleCombineFn(Sum(), total, max))
    pairs | "one key" >> beam.RunComputation(Computation(), key=key, outputs="one")
    (pairs, pairs) | "two keys" >> beam.RunComputation(Computation(), key=[key, lambda pair: 1], outputs=["two"])
    Topology().computation("keyed", Computation(), {"pairs": key})
    for counter in p.run().metrics().query()["counters"]:
        number: int = counter.result
"""


def checked(tmp_path: Path, program: str) -> str:
    """What the type checker says."""
    file = tmp_path / "program.py"
    file.write_text(dedent(program))
    return api.run(["--strict", "--cache-dir", ".mypy_cache", str(file)])[0]


def test_a_typed_program_passes(tmp_path: Path) -> None:
    assert checked(tmp_path, PROGRAM).startswith("Success")


@pytest.mark.parametrize(
    "mistake",
    [
        "beam.CombinePerKey(3)",
        'beam.RunComputation(Computation(), key="word")',
        'text: str = p.run().metrics().query()["counters"][0].result',
        'Metrics.counter("test", "pairs").inc("one")',
    ],
)
def test_mistakes_are_found(tmp_path: Path, mistake: str) -> None:
    assert "Found 1 error" in checked(tmp_path, PROGRAM + f"\n    {mistake}\n")
