"""Diagrams of a program: of the pipeline as written, composites around its steps, and of its topology."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass

from headrace.lowlevel.time import Duration, Timestamp
from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.compiler.collection_graph import CollectionGraph
from headrace.sdk.graph.ptransform import is_of_engine
from headrace.sdk.graph.pvalue import BasePipeline, PCollection, Step
from headrace.sdk.operators.fusion.stage import Stage
from headrace.sdk.transforms.core.low_level import RunComputation, Source, Write
from headrace.sdk.transforms.core.reshuffle import Shuffling
from headrace.sdk.transforms.core.steps import GROUPING, runs_by_key, side_inputs_of
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.visualization.diagrams.diagram import Arrow, Box, Diagram, StepKind, mermaid
from headrace.sdk.visualization.diagrams.svg import svg
from headrace.sdk.windows.windowing import Windowing

_SINK = " (sink)"


def pipeline_diagram(pipeline: BasePipeline) -> Diagram:
    """The diagram of a pipeline; a composite of Headrace is one box, composites of the user are groups of boxes.

    >>> from headrace.sdk.transforms.core.create import Create
    >>> from headrace.sdk.transforms.core.par_do import Map
    >>> from headrace.sdk.graph.pipeline_graph import PipelineGraph
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> pipeline = PipelineGraph(PipelineOptions([]))
    >>> _ = pipeline | "Numbers" >> Create([1, 2]) | "Double" >> Map(lambda number: 2 * number)
    >>> diagram = pipeline_diagram(pipeline)
    >>> [box.name for box in diagram.boxes], [(arrow.source, arrow.target) for arrow in diagram.arrows]
    (['Numbers', 'Double'], [('Numbers', 'Double')])
    """
    diagram, visible_steps = Diagram("as written"), _VisibleSteps(pipeline)
    boxes: dict[str, Box] = {}
    arrows: dict[Arrow, None] = {}
    for step in CollectionGraph(pipeline.steps).steps:
        visible = visible_steps.of(step)
        name = visible.full_label
        kind = _kind_of(step, visible, boxes.get(name))
        boxes[name] = Box(name, _lines(visible), kind, tuple(name.split("/")[:-1]))
        for value in step.inputs:
            if isinstance(value, PCollection):
                arrows[_arrow(value, step, visible_steps, shuffled=_kind(step) is StepKind.KEYED)] = None
        arrows |= dict.fromkeys(_arrow(side.pvalue, step, visible_steps, beside=True) for side in side_inputs_of(step))
    diagram.boxes += boxes.values()
    diagram.arrows += [arrow for arrow in arrows if arrow.source != arrow.target]
    return diagram


def mime_bundle(pipeline: BasePipeline) -> dict[str, str]:
    """MIME type -> the diagram in it: Mermaid, which JupyterLab renders, and SVG if the extra `plot` is installed.

    >>> from headrace.sdk.graph.pipeline_graph import PipelineGraph
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> sorted(mime_bundle(PipelineGraph(PipelineOptions([]))))
    ['text/plain']
    """
    if not pipeline.steps:
        return {"text/plain": "a pipeline without steps"}
    diagram = pipeline_diagram(pipeline)
    bundle = {"text/plain": mermaid(diagram), "text/vnd.mermaid": mermaid(diagram)}
    with suppress(ImportError):
        bundle["image/svg+xml"] = svg(diagram)
    return bundle


_PRECEDENCE = (StepKind.STEP, StepKind.SOURCE, StepKind.KEYED, StepKind.SINK)
"""The kind of a box for several steps is the last of their kinds in this order."""


class _VisibleSteps:
    """The steps that get a box: all but the parts of Headrace's own composites."""

    def __init__(self, pipeline: BasePipeline) -> None:
        self._composites = {step.full_label: step for step in pipeline.steps if is_of_engine(step.transform)}

    def of(self, step: Step) -> Step:
        """The outermost transform of Headrace around a step, or the step itself."""
        parts = step.full_label.split("/")
        around = ("/".join(parts[:length]) for length in range(1, len(parts)))
        return next((self._composites[label] for label in around if label in self._composites), step)


def _arrow(
    value: PCollection[object], step: Step, visible_steps: _VisibleSteps, shuffled: bool = False, beside: bool = False
) -> Arrow:
    assert value.producer is not None
    source, target = visible_steps.of(value.producer).full_label, visible_steps.of(step).full_label
    return Arrow(source, target, value.tag or "", shuffled, beside)


def _kind(step: Step) -> StepKind:
    transform = step.transform
    if isinstance(transform, Source):
        return StepKind.SOURCE
    if isinstance(transform, Write):
        return StepKind.SINK
    keyed = isinstance(transform, (*GROUPING, Shuffling, RunComputation)) or runs_by_key(step)
    return StepKind.KEYED if keyed else StepKind.STEP


def _kind_of(step: Step, visible: Step, known: Box | None) -> StepKind:
    """The kind of a step, or of the composite around it, given the kind of its parts so far."""
    if visible is not step and not any(isinstance(value, PCollection) for value in visible.inputs):
        return StepKind.SOURCE
    kind = _kind(step)
    return kind if known is None else max(kind, known.kind, key=_PRECEDENCE.index)


def _lines(step: Step) -> tuple[str, ...]:
    title, kind = step.full_label, type(step.transform).__name__
    lines = [title] if title.rpartition("/")[2].partition("(")[0] == kind else [title, kind]
    if isinstance(step.transform, WindowInto):
        lines += [line for output in step.outputs.values() for line in _where_when_how(output.windowing)]
    return tuple(lines)


def _where_when_how(windowing: Windowing) -> list[str]:
    """A line for the window function and for each setting that differs from its default."""
    default, lines = Windowing(), [_short_form(windowing.window_fn)]
    if windowing.trigger != default.trigger:
        lines += [_short_form(windowing.trigger), windowing.accumulation_mode.name.lower().replace("_", " ")]
    if windowing.allowed_lateness_us:
        lines.append(f"allowed lateness {windowing.allowed_lateness_us / 1e6:g} s")
    return lines


def _short_form(value: object) -> str:
    """A value as a program would write it, without default arguments; times are seconds.

    >>> from headrace.sdk.triggers import AfterCount, AfterWatermark
    >>> from headrace.sdk.windows import SlidingWindows
    >>> _short_form(SlidingWindows(60, 15)), _short_form(AfterWatermark(late=AfterCount(1)))
    ('SlidingWindows(60, 15)', 'AfterWatermark(late=Repeatedly(AfterCount(1)))')
    """
    if isinstance(value, Duration | Timestamp):
        return f"{value.micros / 1e6:g}"
    if isinstance(value, tuple | list):
        return ", ".join(map(_short_form, value))
    if isinstance(value, type) or not is_dataclass(value):
        return str(value)
    parts, positional = [], True
    for argument in (argument for argument in fields(value) if not argument.name.startswith("_")):
        content = getattr(value, argument.name)
        if _is_default(argument, content):
            # The arguments after one that is left out need names.
            positional = False
        else:
            parts.append(_short_form(content) if positional else f"{argument.name}={_short_form(content)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _is_default(argument: Field[object], value: object) -> bool:
    if argument.default_factory is not MISSING:
        return value == argument.default_factory()
    # None and a time of zero always count as defaults.
    default = None if argument.default is MISSING else argument.default
    return value is None or value == default or (isinstance(value, Duration | Timestamp) and value.micros == 0)


def topology_diagram(topology: Topology) -> Diagram:
    """The diagram of a topology, compiled from a pipeline or written by hand.

    >>> from headrace.lowlevel.topology.computation import Computation
    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([("britney", 1)]))
    >>> topology.computation("count", Computation(), {"queries": lambda query: query}, ["counts"])
    >>> diagram = topology_diagram(topology)
    >>> [(box.lines, box.kind.name) for box in diagram.boxes]
    [(('queries', 'BoundedInjector'), 'SOURCE'), (('count', 'level 1, Computation'), 'KEYED')]
    >>> diagram.arrows
    [Arrow(source='queries', target='count', label='queries', shuffled=True, beside=False)]
    """
    diagram = Diagram("as compiled")
    for stream, injector in topology.injectors.items():
        diagram.boxes.append(Box(stream, (stream, type(injector).__name__), StepKind.SOURCE))
    for level, names in enumerate(topology.levels(), 1):
        for name in names:
            computation = type(topology.keyed[name].computation).__name__
            diagram.boxes.append(Box(name, (name, f"level {level}, {computation}"), StepKind.KEYED))
    for name in topology.inline_order():
        diagram.boxes.append(Box(name, _lines_of_inline(topology, name), StepKind.STEP))
    for name, (_, sink) in topology.sinks.items():
        diagram.boxes.append(Box(name + _SINK, (name, type(sink).__name__), StepKind.SINK))
    diagram.arrows += _arrows(topology)
    return diagram


def _lines_of_inline(topology: Topology, name: str) -> tuple[str, ...]:
    """The lines of an inline computation; a fused stage shows its steps."""
    node = topology.inlines[name]
    if isinstance(node.computation, Stage):
        return tuple(step.label for step in node.computation.plan.steps) or (name, "passes on")
    part = () if node.step == name else (f"a part of {node.step}",)
    return (name, *part)


def _arrows(topology: Topology) -> Iterator[Arrow]:
    makers: dict[str, list[str]] = {stream: [stream] for stream in topology.injectors}
    for node in topology.nodes():
        for stream in node.outputs:
            makers.setdefault(stream, []).append(node.name)
    for name, keyed in topology.keyed.items():
        for stream in keyed.inputs:
            beside = stream in keyed.aside
            yield from (Arrow(maker, name, stream, shuffled=True, beside=beside) for maker in makers[stream])
    for name, inline in topology.inlines.items():
        for stream in sorted(inline.inputs):
            yield from (Arrow(maker, name, stream) for maker in makers[stream])
    for name, (stream, _) in topology.sinks.items():
        yield from (Arrow(maker, name + _SINK, stream) for maker in makers[stream])
