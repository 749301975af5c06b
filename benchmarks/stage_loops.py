"""The loop of a fused stage in three forms: generated, as it is; composed closures; and one plain loop for each step.

`python -m benchmarks.stage_loops` prints the processor time of an element of each stage. The two other forms leave out
what they would need for timestamps, windows, several readers and the place of an error, so their figures are bounds
from below.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, compress, repeat
from typing import Any

import headrace as beam
from benchmarks.report import console
from headrace.lowlevel.records.record import Batch
from headrace.sdk.model.special_outputs import SPECIAL
from tests.stageloops import loops_of

ELEMENTS = 20_000
ROUNDS = 60
Function = Callable[[Any], Any]
Following = Callable[[Any, int], None]
Steps = list[tuple[type, Function]]
Emit = Callable[[str, Batch], None]
Run = Callable[[Sequence[object], Sequence[int], Emit], object]


def _split(line: str) -> list[str]:
    return line.split()


STAGES: dict[str, tuple[Steps, list[object]]] = {
    "three maps and a filter of whole numbers": (
        [
            (beam.Map, lambda number: number + 1),
            (beam.Map, lambda number: number * 3),
            (beam.Filter, lambda number: number % 2),
            (beam.Map, lambda number: (number % 10, number)),
        ],
        list(range(ELEMENTS)),
    ),
    "two maps of floats": (
        [
            (beam.Map, lambda number: (number * 1.5 + 2.0) / (number + 1.0)),
            (beam.Map, lambda number: (int(number), number)),
        ],
        [number * 0.1 for number in range(ELEMENTS)],
    ),
    "lines of ten words": (
        [(beam.FlatMap, _split), (beam.Map, lambda word: (word, 1))],
        [f"the quick brown fox jumps over the lazy dog {number % 200}" for number in range(ELEMENTS // 5)],
    ),
    "JSON to pairs": (
        [(beam.Map, json.loads), (beam.Map, lambda order: (order["user"], order["price"]))],
        [json.dumps({"user": f"u{number % 50}", "price": number * 0.25, "n": number}) for number in range(ELEMENTS)],
    ),
}


def closures(steps: Steps) -> Run:
    """The closure of each step calls that of the next one for each output."""

    def composed(buffer: list[object], stamps: list[int]) -> Following:
        def leave(value: Any, timestamp: int) -> None:
            key, payload = value
            buffer.append(value if value.__class__ is tuple else (key, payload))
            stamps.append(timestamp)

        following: Following = leave
        for kind, function in reversed(steps):
            following = partial(_STEPS[kind], function, following)
        return following

    def run(values: Sequence[object], timestamps: Sequence[int], emit: Emit) -> None:
        buffer: list[object] = []
        stamps: list[int] = []
        first = composed(buffer, stamps)
        for value, timestamp in zip(values, timestamps, strict=True):
            first(value, timestamp)
        emit("out", Batch(buffer, stamps))

    return run


def _map(function: Function, following: Following, value: object, timestamp: int) -> None:
    result = function(value)
    if result.__class__ in SPECIAL:
        raise TypeError(f"only the generated form takes outputs of class {SPECIAL}")
    following(result, timestamp)


def _filter(function: Function, following: Following, value: object, timestamp: int) -> None:
    if function(value):
        following(value, timestamp)


def _flat_map(function: Function, following: Following, value: object, timestamp: int) -> None:
    if (results := function(value)) is not None:
        for result in results:
            if result.__class__ in SPECIAL:
                raise TypeError(f"only the generated form takes outputs of class {SPECIAL}")
            following(result, timestamp)


_STEPS: dict[type, Callable[..., None]] = {beam.Map: _map, beam.Filter: _filter, beam.FlatMap: _flat_map}


def loops(steps: Steps) -> Run:
    """Each step is a loop over the whole batch."""

    def run(values: Iterable[Any], timestamps: Iterable[int], emit: Emit) -> None:
        for kind, function in steps:
            results = list(map(function, values))
            if kind is beam.Filter:
                values, timestamps = list(compress(values, results)), list(compress(timestamps, results))
                continue
            if kind is beam.FlatMap:
                results = [() if each is None else list(each) for each in results]
                timestamps = list(chain.from_iterable(map(repeat, timestamps, map(len, results))))
                results = list(chain.from_iterable(results))
            if not SPECIAL.isdisjoint(map(type, results)):
                raise TypeError(f"only the generated form takes outputs of class {SPECIAL}")
            values = results
        pairs = [value if value.__class__ is tuple else tuple(value) for value in values if len(value) == 2]
        emit("out", Batch(pairs, list(timestamps)))

    return run


def nanoseconds(run: Run, values: Sequence[object]) -> tuple[float, object]:
    """Processor time of an element, and the values that come out."""
    emitted: list[Batch] = []
    begin = time.process_time_ns()
    run(values, [0] * len(values), lambda stream, batch: emitted.append(batch))
    return (time.process_time_ns() - begin) / len(values), list(emitted[0].values)


def main() -> None:
    """Print the least processor time of each form, turn about."""
    for name, (steps, values) in STAGES.items():
        forms: dict[str, Run] = {
            "generated": loops_of([kind(function) for kind, function in steps], values[:1])[0].run,
            "closures": closures(steps),
            "loops": loops(steps),
        }
        rounds = [{form: nanoseconds(run, values) for form, run in forms.items()} for _ in range(ROUNDS)]
        assert all(len({str(result) for _, result in each.values()}) == 1 for each in rounds[:1]), name
        least = {form: min(each[form][0] for each in rounds) for form in forms}
        ratios = ", ".join(f"{form} {least[form] / least['generated']:.2f}" for form in ("closures", "loops"))
        console.print(f"{name}: generated {least['generated']:.0f} ns; times that: {ratios}")


if __name__ == "__main__":
    main()
