"""How many of its elements a vectorized step has taken one by one, as counted in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headrace.lowlevel.metric import MetricValues
from headrace.runners.reporting.figures import StepFigures, step_figures
from headrace.sdk.compiler.compiler import execution_strategies
from headrace.sdk.compiler.execution_strategy import ProgramStep, steps_of_program
from headrace.sdk.pipeline.pipeline import Pipeline

_FEW = 10_000
"""Number of elements up to which it does not matter how they are taken."""
_SHARE = 0.1
"""Share of elements that a vectorized step may take one by one before a run says so."""


class Taken(NamedTuple):
    """Numbers of elements that a step has taken."""

    by_column: int
    one_by_one: int

    def __str__(self) -> str:
        return f"{self.one_by_one:,} of {sum(self):,} elements were taken one by one"


def figures_of(metrics: MetricValues) -> dict[str, StepFigures]:
    """Step -> its figures."""
    return {each.step: each for each in step_figures(metrics)}


def taken_by(step: ProgramStep, figures: Mapping[str, StepFigures]) -> Taken | None:
    """The numbers of the part of a step that has taken most one by one; None if none of its parts has counted any."""
    parts = [each for part in step.parts if (each := figures.get(part.step)) is not None]
    found = [Taken(each.by_column or 0, each.one_by_one or 0) for each in parts]
    return max((taken for taken in found if any(taken)), key=lambda taken: taken.one_by_one, default=None)


def unlike_explained(pipeline: Pipeline, metrics: MetricValues) -> list[str]:
    """A sentence for each step of a run that is vectorized and has taken many elements one by one."""
    figures = figures_of(metrics)
    if not any((each.one_by_one or 0) > _FEW for each in figures.values()):
        return []
    found: list[str] = []
    for step in steps_of_program(pipeline.steps, execution_strategies(pipeline)):
        taken = taken_by(step, figures)
        if step.strategy.obstacle or step.strategy.exception or taken is None:
            continue
        if taken.one_by_one > max(_FEW, _SHARE * sum(taken)):
            found.append(
                f"step {step.strategy.step!r} is vectorized, but {taken}: their values were not columns of one type, "
                "or came from a source or a function that gives them one by one"
            )
    return found
