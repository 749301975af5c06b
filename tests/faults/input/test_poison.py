"""One record in a hundred is poison: it stops the run by name, or is set aside, counted exactly; from end to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    Computation,
    Context,
    DeadLetter,
    Record,
    StepError,
    Topology,
)
from headrace.runners.engine.options import RunOptions, RunResult
from tests.depth import faults
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults

Run = Callable[..., RunResult]
NUMBERS = faults(quick=1_000, full=100_000)
EPOCH = NUMBERS // 4
POISON = range(NUMBERS // 2 + 37, NUMBERS, 50)
"""All in the second half: one in a hundred."""


def is_poison(number: int) -> bool:
    return number in POISON


def key_of(number: int) -> int:
    return number % 7


class Inverse(Computation):
    """Counts each key's records, raises for poison after it has counted it."""

    def __init__(self, immune: bool = False) -> None:
        self.immune = immune

    def process_record(self, record: Record, context: Context) -> None:
        number = record.value
        assert isinstance(number, int)
        context.state = int(context.state or 0) + 1
        if is_poison(number) and not self.immune:
            context.produce("inverses", (number, "not this"))
            raise ZeroDivisionError(f"poison {number}")
        context.produce("inverses", (number, context.state))


def topology(
    out: dict[str, dict[int, list[object]]], immune: bool = False, dead_letters: str | None = None
) -> Topology:
    made = Topology()
    made.injector("numbers", BoundedInjector([(number, number) for number in range(NUMBERS)]))
    made.computation("invert", Inverse(immune), {"numbers": key_of}, ["inverses"], dead_letters=dead_letters)
    for stream in ("inverses", *filter(None, [dead_letters])):
        made.sink(stream, stream, collect(out.setdefault(stream, {})))
    return made


def collect(epochs: dict[int, list[object]]) -> CallSink:
    """What is delivered in each epoch; a repeated delivery must be the same."""

    def deliver(epoch: int, rows: list[tuple[object, int]]) -> None:
        values = sorted(value for value, _ in rows)
        assert epochs.setdefault(epoch, values) == values

    return CallSink(deliver)


def delivered(epochs: dict[int, list[object]]) -> list[object]:
    return [value for values in epochs.values() for value in values]


def counted(numbers: Iterator[int]) -> list[tuple[int, int]]:
    """Each number with how many of its key have come so far."""
    seen = dict.fromkeys(range(7), 0)
    rows = []
    for number in numbers:
        seen[key_of(number)] += 1
        rows.append((number, seen[key_of(number)]))
    return rows


def test_it_stops_the_run_by_step_and_key(run: Run, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    """Nothing of its epoch happened; the program goes on exactly once it can cope."""
    counts = tally(11)
    counts.plan(2)
    options = RunOptions(str(tmp_path), max_records_per_epoch=EPOCH)
    out: dict[str, dict[int, list[object]]] = {}
    for _ in range(2):
        with pytest.raises(
            StepError, match=r"(?s)^step 'invert' raised for key \d at \d+; nothing .*: poison \d+"
        ) as told:
            run(topology(out), options)
        error = told.value
        assert isinstance(error.value, int) and is_poison(error.value)
        assert (error.step, error.key) == ("invert", key_of(error.value))
        assert f"poison {error.value}" in error.cause
        counts.fire()
        counts.compare(counted(iter(range(2 * EPOCH))), delivered(out["inverses"]), "before the poison")
    run(topology(out, immune=True), options)
    counts.compare(counted(iter(range(NUMBERS))), delivered(out["inverses"]))


def test_it_is_set_aside_by_a_computation(run: Run, tally: Callable[[int], Tally]) -> None:
    counts = tally(11)
    counts.plan(len(POISON))
    out: dict[str, dict[int, list[object]]] = {}
    result = run(topology(out, dead_letters="dead"), RunOptions(max_records_per_epoch=EPOCH))
    letters = delivered(out["dead"])
    counts.fire(len(letters))
    assert all(isinstance(letter, DeadLetter) for letter in letters)
    told = [(letter.step, letter.key, letter.value, letter.error.splitlines()[-1]) for letter in letters]
    poison = [("invert", key_of(number), number, f"ZeroDivisionError: poison {number}") for number in POISON]
    counts.compare(poison, told, "dead letters")
    well = counted(number for number in range(NUMBERS) if not is_poison(number))
    counts.compare(well, delivered(out["inverses"]))
    assert result.counters["invert"]["dead_letters"] == len(POISON)
    assert result.counters["invert"]["records"] == NUMBERS


class Check(beam.DoFn):
    def process(self, number: int) -> Iterator[tuple[int, int]]:
        # What it has put out before it raises goes with it.
        yield key_of(number), 1
        if is_poison(number):
            raise ZeroDivisionError(f"poison {number}")


def test_it_is_set_aside_by_a_do_fn(run: Run, tally: Callable[[int], Tally]) -> None:
    counts = tally(11)
    counts.plan(len(POISON))
    sums: dict[int, list[object]] = {}
    dead: dict[int, list[object]] = {}
    pipeline = beam.Pipeline()
    good, bad = pipeline | beam.Create(range(NUMBERS)) | beam.ParDo(Check()).with_exception_handling()
    good | beam.CombinePerKey(sum) | "sums" >> beam.io.Write(collect(sums))
    shown = bad | beam.Map(lambda letter: (letter[0], letter[1][0].__name__, letter[1][2][-1].strip()))
    shown | "dead" >> beam.io.Write(collect(dead))
    run(pipeline.topology(), RunOptions(max_records_per_epoch=EPOCH))
    counts.fire(len(delivered(dead)))
    poison = [(number, "ZeroDivisionError", f"ZeroDivisionError: poison {number}") for number in POISON]
    counts.compare(poison, delivered(dead), "dead letters")
    well = dict.fromkeys(range(7), 0)
    for number in range(NUMBERS):
        well[key_of(number)] += not is_poison(number)
    counts.compare(well.items(), delivered(sums))
