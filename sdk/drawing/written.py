"""The pipeline as the program has it: a box for each transform that does something, composites around them."""

from __future__ import annotations

from headrace.sdk.drawing.drawing import Arrow, Box, Drawing, Kind
from headrace.sdk.drawing.words import short
from headrace.sdk.graph import GROUPING, Graph, sides_of, stateful_signature
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.computation import RunComputation
from headrace.sdk.transforms.reshuffle import Shuffling
from headrace.sdk.transforms.source import Source
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.transforms.write import Write
from headrace.sdk.windowing import Windowing


def written(pipeline: Pipeline) -> Drawing:
    """The drawing of a pipeline as written.

    >>> from headrace.sdk.transforms.create import Create
    >>> from headrace.sdk.transforms.element import Map
    >>> pipeline = Pipeline("LocalRunner")
    >>> _ = pipeline | "Numbers" >> Create([1, 2]) | "Double" >> Map(lambda number: 2 * number)
    >>> drawing = written(pipeline)
    >>> [box.name for box in drawing.boxes], [(arrow.source, arrow.target) for arrow in drawing.arrows]
    (['Numbers', 'Double'], [('Numbers', 'Double')])
    """
    drawing = Drawing("as written")
    for step in Graph(pipeline.steps).steps:
        kind = _kind(step)
        drawing.boxes.append(Box(step.full_label, _lines(step), kind, _around(step)))
        for value in step.inputs:
            if isinstance(value, PCollection):
                drawing.arrows.append(_arrow(value, step, shuffled=kind is Kind.KEYED))
        drawing.arrows += [_arrow(side.pvalue, step, beside=True) for side in sides_of(step)]
    return drawing


def _arrow(value: PCollection[object], step: Step, shuffled: bool = False, beside: bool = False) -> Arrow:
    assert value.producer is not None
    return Arrow(value.producer.full_label, step.full_label, value.tag or "", shuffled, beside)


def _kind(step: Step) -> Kind:
    transform = step.transform
    if isinstance(transform, Source):
        return Kind.SOURCE
    if isinstance(transform, Write):
        return Kind.SINK
    keyed = isinstance(transform, (*GROUPING, Shuffling, RunComputation)) or stateful_signature(step) is not None
    return Kind.KEYED if keyed else Kind.STEP


def _around(step: Step) -> tuple[str, ...]:
    return tuple(step.full_label.split("/")[:-1])


def _lines(step: Step) -> tuple[str, ...]:
    title, kind = step.full_label, type(step.transform).__name__
    lines = [title] if title.rpartition("/")[2].partition("(")[0] == kind else [title, kind]
    if isinstance(step.transform, WindowInto):
        lines += [line for output in step.outputs.values() for line in _where_when_how(output.windowing)]
    return tuple(lines)


def _where_when_how(windowing: Windowing) -> list[str]:
    """What differs from the defaults, a line each."""
    default, lines = Windowing(), [short(windowing.window_fn)]
    if windowing.trigger != default.trigger:
        lines += [short(windowing.trigger), windowing.accumulation_mode.name.lower().replace("_", " ")]
    if windowing.allowed_lateness_us:
        lines.append(f"allowed lateness {windowing.allowed_lateness_us / 1e6:g} s")
    return lines
