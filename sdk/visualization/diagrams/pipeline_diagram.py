"""The pipeline as the program has it: a box for each transform that does something, composites around them."""

from __future__ import annotations

from headrace.sdk.drawing.drawing import Arrow, Box, Drawing, Kind
from headrace.sdk.drawing.words import short
from headrace.sdk.graph import GROUPING, Graph, sides_of, stateful_signature
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.ptransform import is_function
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.computation import RunComputation
from headrace.sdk.transforms.reshuffle import Shuffling
from headrace.sdk.transforms.source import Source
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.transforms.write import Write
from headrace.sdk.windowing import Windowing


def written(pipeline: Pipeline) -> Drawing:
    """The drawing of a pipeline as written: its own steps, each in one box, whatever it is made of.

    >>> from headrace.sdk.transforms.create import Create
    >>> from headrace.sdk.transforms.element import Map
    >>> pipeline = Pipeline("LocalRunner")
    >>> _ = pipeline | "Numbers" >> Create([1, 2]) | "Double" >> Map(lambda number: 2 * number)
    >>> drawing = written(pipeline)
    >>> [box.name for box in drawing.boxes], [(arrow.source, arrow.target) for arrow in drawing.arrows]
    (['Numbers', 'Double'], [('Numbers', 'Double')])
    """
    drawing, whole = Drawing("as written"), _Whole(pipeline)
    boxes: dict[str, Box] = {}
    arrows: dict[Arrow, None] = {}
    for step in Graph(pipeline.steps).steps:
        shown = whole.of(step)
        name = shown.full_label
        kind = _kind_of(step, shown, boxes.get(name))
        boxes[name] = Box(name, _lines(shown), kind, _around(shown))
        for value in step.inputs:
            if isinstance(value, PCollection):
                arrows[_arrow(value, step, whole, shuffled=_kind(step) is Kind.KEYED)] = None
        arrows |= dict.fromkeys(_arrow(side.pvalue, step, whole, beside=True) for side in sides_of(step))
    drawing.boxes += boxes.values()
    drawing.arrows += [arrow for arrow in arrows if arrow.source != arrow.target]
    return drawing


_TELLING = (Kind.STEP, Kind.SOURCE, Kind.KEYED, Kind.SINK)
"""Of what several steps are, the last one here says what they are together."""


class _Whole:
    """Which step of the program a step is a part of: those that a transform of Headrace is made of are none."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._made = {
            step.full_label: step
            for step in pipeline.steps
            if type(step.transform).__module__.startswith("headrace.") and not is_function(step.transform)
        }

    def of(self, step: Step) -> Step:
        """The step, or the outermost transform of Headrace around it."""
        parts = step.full_label.split("/")
        around = ("/".join(parts[:length]) for length in range(1, len(parts)))
        return next((self._made[label] for label in around if label in self._made), step)


def _arrow(
    value: PCollection[object], step: Step, whole: _Whole, shuffled: bool = False, beside: bool = False
) -> Arrow:
    assert value.producer is not None
    source, target = whole.of(value.producer).full_label, whole.of(step).full_label
    return Arrow(source, target, value.tag or "", shuffled, beside)


def _kind(step: Step) -> Kind:
    transform = step.transform
    if isinstance(transform, Source):
        return Kind.SOURCE
    if isinstance(transform, Write):
        return Kind.SINK
    keyed = isinstance(transform, (*GROUPING, Shuffling, RunComputation)) or stateful_signature(step) is not None
    return Kind.KEYED if keyed else Kind.STEP


def _kind_of(step: Step, shown: Step, known: Box | None) -> Kind:
    """What a step is, or one that it is a part of, together with the parts of it that are known already."""
    if shown is not step and not any(isinstance(value, PCollection) for value in shown.inputs):
        return Kind.SOURCE
    kind = _kind(step)
    return kind if known is None else max(kind, known.kind, key=_TELLING.index)


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
