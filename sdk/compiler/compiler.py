"""From a pipeline to a topology: element-wise steps fused into stages, each grouping a keyed computation.

Every collection that comes from a source, a grouping, a `Flatten` or a raw computation is a stream of the topology and
begins a stage: the tree of element-wise steps that read it, up to where elements leave for another grouping, sink,
`Flatten` or raw computation. Names come from the labels of the steps, so that the same program compiles to the same
topology.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import cast

from headrace.lowlevel.computation import Computation
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.intervalcomputation import IntervalComputation
from headrace.lowlevel.record import KeyExtractor
from headrace.lowlevel.redelivery import Once, by_record_id
from headrace.lowlevel.sink import ReleasingSink
from headrace.lowlevel.topology import Topology
from headrace.sdk.arrivals import InputForm
from headrace.sdk.coders.registry import registry
from headrace.sdk.columns.choice import obstacle
from headrace.sdk.columns.grouping import ColumnGrouping, has_columns
from headrace.sdk.columns.panegrouping import ColumnPanes
from headrace.sdk.columns.reducers import reducers_of
from headrace.sdk.columns.sessiongrouping import ColumnSessions, gap_of
from headrace.sdk.columns.sessionlifting import SessionLifting
from headrace.sdk.fanout import Shards, Spread
from headrace.sdk.fusion.plan import Exit, Form, StagePlan, WindowStep
from headrace.sdk.fusion.stage import Stage
from headrace.sdk.graph import (
    GROUPING,
    Collection,
    Graph,
    is_fused,
    par_do_of,
    planned_step,
    sides_of,
    stateful_signature,
    stream_of,
)
from headrace.sdk.lifting import LiftedCombine, liftable
from headrace.sdk.mixedgrouping import MixedGrouping
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.shipping import shipped
from headrace.sdk.shuffling import Route, Scatter, Shuffle
from headrace.sdk.sides.topology import add_gate, add_side_input
from headrace.sdk.stateful.computation import StatefulParDo, StatefulPlan
from headrace.sdk.stateful.signature import Signature
from headrace.sdk.transforms.combine import CombinePerKey, Fanout
from headrace.sdk.transforms.combinefn import AnyCombineFn
from headrace.sdk.transforms.computation import RunComputation
from headrace.sdk.transforms.flatten import Flatten
from headrace.sdk.transforms.percentile import PercentileWatermark
from headrace.sdk.transforms.reshuffle import Reshuffle, ReshufflePerKey, Shuffling
from headrace.sdk.transforms.source import Source
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.transforms.write import Write
from headrace.sdk.way import Way, one_for_each_step
from headrace.sdk.windowing import Windowing

_log = logging.getLogger(__name__)
_key_of = cast(KeyExtractor, itemgetter(0))
"""Written in C: it is called for every record that goes to a grouping."""


def _key_of_sided(value: object) -> object:
    """The key of a pair in the form SIDED."""
    (key, _), *_ = cast("tuple[tuple[object, object], object, object, object]", value)
    return key


def compile_pipeline(pipeline: Pipeline) -> Topology:
    """The topology of a pipeline. Raises `TopologyError` for one that cannot run.

    >>> from headrace.sdk.transforms.create import Create
    >>> from headrace.sdk.transforms.element import Map
    >>> pipeline = Pipeline("LocalRunner")
    >>> _ = pipeline | "Numbers" >> Create([1, 2]) | "Double" >> Map(lambda number: 2 * number)
    >>> topology = compile_pipeline(pipeline)
    >>> list(topology.injectors), list(topology.inlines)
    (['Numbers'], ['Double'])
    """
    return compile_steps(pipeline.steps)


def compile_steps(steps: Sequence[Step]) -> Topology:
    """The topology of a pipeline's steps, with more than the pipeline has. As `compile_pipeline`."""
    return _Compiler(Graph(steps)).topology()


def ways_of(pipeline: Pipeline) -> list[Way]:
    """Which way each step of a pipeline goes, the quick one or the general one, and why.

    >>> from headrace.sdk.transforms.create import Create
    >>> from headrace.sdk.transforms.group import GroupByKey
    >>> pipeline = Pipeline("LocalRunner")
    >>> _ = pipeline | Create([("a", 1)]) | GroupByKey()
    >>> print(ways_of(pipeline)[-1])
    step 'GroupByKey' takes key by key: it keeps all elements; combine them (CombinePerKey) if that is enough
    """
    compiler = _Compiler(Graph(pipeline.steps))
    compiler.topology()
    return compiler.ways


class _Compiler:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._topology = Topology(key_coder=registry.key_coder())
        self._streams: dict[str, str] = {}
        self._grouped: list[Way] = []
        self._elements: list[Way] = []

    @property
    def ways(self) -> list[Way]:
        """One for each step, in the order of the topology."""
        return one_for_each_step(self._grouped, self._elements)

    def topology(self) -> Topology:
        """Add every step in the order of the program."""
        for step in self._graph.steps:
            self._add(step)
        for collection, name in self._graph.side_inputs.items():
            streams, takes_back = _forms(self._into_side(collection)), self._graph.may_retract(collection)
            add_side_input(
                self._topology, name, collection.windowing, streams, takes_back, self._graph.lookers(collection)
            )
        for way in self.ways if _log.isEnabledFor(logging.INFO) else ():
            _log.info("%s", way)
        return self._topology

    def _add(self, step: Step) -> None:
        transform, label = step.transform, step.full_label
        for output in step.outputs.values():
            if self._graph.begins_stage(output):
                self._claim(self._stream(output), label)
        if isinstance(transform, Source):
            for tag, output in step.outputs.items():
                self._topology.injector(self._stream(output), transform.injector_of(tag))
        elif isinstance(transform, GROUPING):
            self._group(step)
        elif (signature := stateful_signature(step)) is not None:
            self._stateful(step, signature)
        elif isinstance(transform, Shuffling):
            self._shuffle(step, transform)
        elif isinstance(transform, RunComputation):
            streams = [self._into(step, index).stream for index in range(len(step.inputs))]
            inputs = dict(zip(streams, transform.keys, strict=True))
            by_columns = isinstance(transform.computation, IntervalComputation)
            against = None if by_columns else f"{type(transform.computation).__name__} is no ColumnComputation"
            self._grouped.append(Way(label, "all keys at once", "key by key", against))
            self._topology.computation(label, transform.computation, inputs, transform.streams, transform.dead_letters)
        elif isinstance(transform, Write):
            stream, sink = self._into(step, 0).stream, transform.sink()
            self._topology.sink(label, stream if isinstance(sink, ReleasingSink) else self._once(stream), sink)
        elif sides_of(step):
            self._begin_sided(step)
        for output in step.outputs.values():
            if self._graph.begins_stage(output):
                self._stage(output)

    def _once(self, stream: str) -> str:
        """The stream for a reader that cannot know a record again, as what combines or goes by columns has no ids."""
        once = f"{stream}#once"
        if stream not in self._topology.id_slacks():
            return stream
        if once not in self._topology.keyed:
            self._topology.computation(once, Once(once), {stream: by_record_id}, [once])
        return once

    def _claim(self, stream: str, label: str) -> None:
        if stream in self._streams:
            raise TopologyError(
                f"steps {self._streams[stream]!r} and {label!r} both put out a stream named {stream!r}; "
                "rename the step, or the computation's output"
            )
        self._streams[stream] = label

    # Streams

    def _stream(self, collection: Collection) -> str:
        """The stream that carries a collection which begins a stage."""
        producer = collection.producer
        assert producer is not None
        if isinstance(producer.transform, RunComputation):
            assert collection.tag is not None
            return collection.tag
        return stream_of(collection)

    def _into(self, step: Step, index: int) -> Exit:
        """How the elements of an input reach a step that is no part of a stage."""
        collection = self._graph.inputs(step)[index]
        label, transform = step.full_label, step.transform
        if sides_of(step):
            return Exit(label, 0, f"{label}#main", Form.WINDOWED)
        if isinstance(transform, Flatten):
            output = step.outputs[None]
            spare = f"{label}#windowed" if self._graph.has_spare(output) else None
            return Exit(label, 0, label, self._graph.forms[output], spare=spare)
        if isinstance(transform, (*GROUPING, ReshufflePerKey)) or stateful_signature(step) is not None:
            form = Form.PLAIN if self._graph.forms[collection] is Form.PLAIN else Form.WINDOWED
            spare = f"{label}#in windowed" if self._graph.has_spare(collection) else None
            return Exit(label, 0, f"{label}#in", form, keyed=True, spare=spare)
        if isinstance(transform, Reshuffle):
            spare = f"{label}#in windowed" if self._graph.has_spare(collection) else None
            return Exit(label, 0, f"{label}#in", self._graph.forms[step.outputs[None]], spare=spare)
        if self._is_bare(collection):
            return Exit(label, 0, self._stream(collection), None)
        return Exit(label, 0, f"{label}#in{index}", None)

    def _into_side(self, collection: Collection) -> Exit:
        """How the elements of a side input reach its grouping."""
        name = self._graph.side_inputs[collection]
        form = Form.PLAIN if self._graph.forms[collection] is Form.PLAIN else Form.WINDOWED
        spare = f"{name}#windowed" if self._graph.has_spare(collection) else None
        return Exit(name, 0, f"{name}#in", form, spare=spare)

    def _is_bare(self, collection: Collection) -> bool:
        """Whether a stream of the topology has the values of a collection, and nothing but them."""
        graph = self._graph
        plain = graph.forms[collection] is Form.PLAIN and not graph.has_spare(collection)
        return plain and graph.begins_stage(collection)

    # Stages

    def _stage(self, root: Collection) -> None:
        """Add the stage on a collection, if anything is to be done with it there."""
        stream = self._stream(root)
        plan = StagePlan({stream: self._graph.forms[root]}, [root.windowing])
        if self._graph.has_spare(root):
            plan.entries[f"{stream}#windowed"] = Form.WINDOWED
        self._plan_readers(plan, root, 0)
        if plan.steps or plan.exits:
            self._add_stage(plan, stream)

    def _add_stage(self, plan: StagePlan, stream: str) -> None:
        name = plan.name(stream)
        if any(step.finishes() for step in plan.element_steps()):
            plan.entries = {self._once(entry): form for entry, form in plan.entries.items()}
        stage = Stage(name, plan)
        self._elements += [
            Way(step, "columns if they come", "elements one by one", against) for step, against in stage.paths()
        ]
        self._topology.inline(name, stage, list(plan.entries), plan.outputs())

    def _gate(self, step: Step) -> str:
        """Add the gate of a step with side inputs; the stream of what it lets go."""
        main = self._graph.inputs(step)[0].windowing
        sides = [(self._graph.side_inputs[side.pvalue], side) for side in sides_of(step)]
        return add_gate(self._topology, step.full_label, main, sides, self._into(step, 0).stream)

    def _begin_sided(self, step: Step) -> None:
        """Add a step with side inputs, and the stage that it begins."""
        ready = self._gate(step)
        plan = StagePlan({ready: Form.SIDED}, [self._graph.inputs(step)[0].windowing])
        self._plan_step(plan, step, 0)
        self._add_stage(plan, ready)

    def _plan_readers(self, plan: StagePlan, collection: Collection, node: int) -> None:
        for step, index in self._graph.readers.get(collection, ()):
            if is_fused(step) and not sides_of(step):
                self._plan_step(plan, step, node)
            elif (leave := self._into(step, index)).stream not in plan.entries:
                plan.exits.append(replace(leave, source=node))
        if collection in self._graph.side_inputs:
            plan.exits.append(replace(self._into_side(collection), source=node))

    def _plan_step(self, plan: StagePlan, step: Step, node: int) -> None:
        outputs = {tag: output for tag, output in step.outputs.items() if output in self._graph.readers}
        numbers = {tag: len(plan.windowings) + i for i, tag in enumerate(outputs)}
        plan.windowings += [output.windowing for output in outputs.values()]
        if not isinstance(step.transform, WindowInto):
            plan.steps.append(planned_step(step, node, numbers))
        elif numbers:
            retracts = self._graph.may_retract(self._graph.inputs(step)[0])
            plan.steps.append(WindowStep(step.full_label, node, numbers[None], retracts))
        for tag, output in outputs.items():
            self._plan_readers(plan, output, numbers[tag])

    # Groupings

    def _group(self, step: Step) -> None:
        transform, label = step.transform, step.full_label
        streams = _forms(self._into(step, 0))
        windowing = self._graph.inputs(step)[0].windowing
        combine = transform.combine_fn if isinstance(transform, CombinePerKey) else None
        if combine is not None:
            streams = {self._once(stream): form for stream, form in streams.items()}
        takes_back = self._graph.may_retract(self._graph.inputs(step)[0])
        fanout = transform.fanout if isinstance(transform, CombinePerKey) else None
        against = obstacle(windowing, combine, takes_back=takes_back, spread=fanout is not None)
        self._grouped.append(Way(label, "all keys at once", "key by key", against))
        if combine is not None and against is None and gap_of(windowing) is not None:
            self._sessions(step, windowing, combine, streams)
            return
        if combine is not None and not takes_back and all(liftable(windowing, form) for form in streams.values()):
            streams = self._lift(label, windowing, combine, streams)
        if combine is not None and fanout is not None and not takes_back and not windowing.trigger.needs_values:
            streams = self._fan_out(label, windowing, combine, fanout, streams)
        # Each part has a copy of its own, so that each is set up once.
        own, reducers = shipped(combine, label), None if combine is None else reducers_of(combine)
        grouping: Computation = MixedGrouping(windowing, own, streams, label, takes_back)
        if own is not None and reducers is not None and against is None:
            kind = ColumnGrouping if has_columns(windowing) else ColumnPanes
            grouping = kind(windowing, own, reducers, label)
        inputs = dict.fromkeys(streams, _key_of)
        percentile = _percentile_of(transform)
        self._topology.computation(label, grouping, inputs, [label], watermark_percentile=percentile)

    def _lift(
        self, label: str, windowing: Windowing, combine: AnyCombineFn, streams: dict[str, InputForm]
    ) -> dict[str, InputForm]:
        """Combine before the shuffle; the stream that comes of it."""
        lifted = f"{label}#lifted"
        for stream, form in streams.items():
            own = shipped(combine, label)
            combining = LiftedCombine(windowing, own, form, lifted, self._topology.key_coder, label)
            self._topology.inline(f"{stream} combined", combining, [stream], [lifted], step=label)
        return {lifted: InputForm.LIFTED}

    def _sessions(self, step: Step, windowing: Windowing, combine: AnyCombineFn, streams: dict[str, InputForm]) -> None:
        """Combine in the sessions of all keys at once."""
        label, gap, reducers = step.full_label, gap_of(windowing), reducers_of(combine)
        assert gap is not None and reducers is not None, "obstacle() has looked"
        lifted = f"{label}#lifted"
        for stream, form in streams.items():
            lifting = SessionLifting(shipped(combine, label), reducers, gap, form, lifted)
            self._topology.inline(f"{stream} combined", lifting, [stream], [lifted], step=label)
        sessions = ColumnSessions(windowing, shipped(combine, label), reducers, label)
        self._topology.computation(
            label, sessions, {lifted: _key_of}, [label], watermark_percentile=_percentile_of(step.transform)
        )

    def _fan_out(
        self, label: str, windowing: Windowing, combine: AnyCombineFn, fanout: Fanout, streams: dict[str, InputForm]
    ) -> dict[str, InputForm]:
        """Combine in shards of each key first; the stream that comes of it."""
        spread: dict[str, InputForm] = {}
        for stream, form in streams.items():
            spread[f"{stream} spread"] = form
            spreading = Spread(fanout, f"{stream} spread")
            self._topology.inline(f"{stream} spreading", spreading, [stream], [f"{stream} spread"], step=label)
        shards = Shards(windowing, shipped(combine, label), spread, f"{label}#shards")
        self._topology.computation(f"{label}#shards", shards, dict.fromkeys(spread, _key_of), [f"{label}#shards"])
        return {f"{label}#shards": shards.output_form}

    def _shuffle(self, step: Step, transform: Shuffling) -> None:
        entry, stream = self._into(step, 0), self._stream(step.outputs[None])
        assert entry.form is not None, "a shuffle's exit has a form"
        routes = {entry.stream: Route(entry.form, stream)}
        if entry.spare is not None:
            routes[entry.spare] = Route(Form.WINDOWED, f"{stream}#windowed")
        if isinstance(transform, Reshuffle):
            for source in list(routes):
                scattered, once = f"{source} scattered", self._once(source)
                scatter = Scatter(transform.num_buckets, scattered)
                self._topology.inline(f"{source} scattering", scatter, [once], [scattered], step=step.full_label)
                routes[scattered] = routes.pop(source)
        shuffle = Shuffle(routes, keep_keys=isinstance(transform, ReshufflePerKey))
        outputs = [route.output_stream for route in routes.values()]
        self._topology.computation(step.full_label, shuffle, dict.fromkeys(routes, _key_of), outputs)

    # State and timers

    def _stateful(self, step: Step, signature: Signature) -> None:
        forms, key_of = self._stateful_inputs(step)
        outputs = {tag: self._stream(output) for tag, output in step.outputs.items() if output in self._graph.readers}
        windowing = self._graph.inputs(step)[0].windowing
        par_do = par_do_of(step)
        plan = StatefulPlan(step.full_label, par_do.fn, par_do.arguments, signature, windowing, forms, outputs)
        self._topology.computation(
            step.full_label, StatefulParDo(plan), dict.fromkeys(forms, key_of), list(outputs.values())
        )

    def _stateful_inputs(self, step: Step) -> tuple[dict[str, Form], KeyExtractor]:
        """The streams into a stateful step, and where the key is in their values."""
        if sides_of(step):
            return {self._gate(step): Form.SIDED}, _key_of_sided
        entry = self._into(step, 0)
        assert entry.form is not None, "a keyed exit has a form"
        spares = {} if entry.spare is None else {entry.spare: Form.WINDOWED}
        return {entry.stream: entry.form, **spares}, _key_of


def _forms(entry: Exit) -> dict[str, InputForm]:
    """The streams into a grouping, and how they carry windows."""
    streams = {entry.stream: InputForm.PLAIN if entry.form is Form.PLAIN else InputForm.WINDOWED}
    if entry.spare is not None:
        streams[entry.spare] = InputForm.WINDOWED
    return streams


def _percentile_of(transform: object) -> float | None:
    """The percentile of the watermark that a step asks for; None for all records."""
    return transform.watermark_percentile if isinstance(transform, PercentileWatermark) else None
