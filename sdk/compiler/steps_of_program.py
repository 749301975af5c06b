"""Folds the execution strategies of steps inside of a transform of the engine into the step that the program has.

`WriteToText` consists of `PaneMark`, `Files` and others, and `GroupBy` of `Key` and `GroupByKey`. Who has written a
program with these transforms does not know such names. The parts of a transform of the program's own stay, as these are
in the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.sdk.compiler.execution_strategy import ALL_KEYS, ExecutionStrategy
from headrace.sdk.graph.ptransform import is_of_engine
from headrace.sdk.graph.pvalue import Step
from headrace.sdk.operators.fusion.vectorized_stage import ONE_AT_A_TIME


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A step of the program."""

    strategy: ExecutionStrategy
    """That of the step as a whole; its reason names steps of the program."""
    parts: tuple[ExecutionStrategy, ...]
    """Those of the steps inside, in the order of the topology."""


def steps_of_program(steps: Sequence[Step], strategies: Sequence[ExecutionStrategy]) -> list[ProgramStep]:
    """The steps that the program has, each with its parts; reasons name these steps, too.

    >>> import headrace as beam
    >>> from headrace.sdk.compiler.compiler import execution_strategies
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | beam.Create(["ab"]) | beam.GroupBy(len)
    >>> [step] = steps_of_program(pipeline.steps, execution_strategies(pipeline))
    >>> print([part.step for part in step.parts], step.strategy.step)
    ['GroupBy(key)/Key', 'GroupBy(key)/GroupByKey'] GroupBy(key)
    """
    of_engine = [step.full_label for step in steps if is_of_engine(step.transform)]
    labels = {strategy.step: _step_around(strategy.step, of_engine) for strategy in strategies}
    parts: dict[str, list[ExecutionStrategy]] = {}
    for strategy in strategies:
        parts.setdefault(labels[strategy.step], []).append(strategy)
    return [ProgramStep(_whole(label, found, labels), tuple(found)) for label, found in parts.items()]


def _whole(label: str, parts: Sequence[ExecutionStrategy], labels: Mapping[str, str]) -> ExecutionStrategy:
    """How a step processes elements: as its grouping does, or as its first part that is not vectorized."""
    groupings = [part for part in parts if part.vectorized == ALL_KEYS]
    slow = next((part for part in parts if part not in groupings and part.obstacle is not None), None)
    whole = next((part for part in groupings if part.obstacle is not None), (groupings or [slow or parts[0]])[0])
    if groupings and slow is not None and whole.obstacle is None:
        whole = replace(whole, exception=f"its elements come one by one: {slow.obstacle}")
    obstacle = None if whole.obstacle is None else _renamed(whole.obstacle, labels)
    return replace(whole, step=label, obstacle=obstacle, exception=_renamed(whole.exception, labels))


def _step_around(label: str, of_engine: Iterable[str]) -> str:
    around = [other for other in of_engine if f"{label}/".startswith(f"{other}/")]
    return min(around, key=len, default=label)


def _renamed(reason: str, labels: Mapping[str, str]) -> str:
    """A reason that names the steps of the program."""
    for part, label in labels.items():
        reason = reason.replace(f"step {part!r} ", f"step {label!r} ")
    return reason.replace(ONE_AT_A_TIME, "a part of the transform takes one element at a time")
