"""From a pipeline to a topology: element-wise steps fused into stages, each grouping a keyed computation.

Every collection that comes from a source, a grouping, a `Flatten` or a raw computation is a stream of the topology and
begins a stage: the tree of element-wise steps that read it, up to where elements leave for another grouping, sink,
`Flatten` or raw computation. Names come from the labels of the steps, so that the same program compiles to the same
topology.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.injectors.injector import EndedInjector, Injector
from headrace.lowlevel.records.record import KeyExtractor
from headrace.lowlevel.sinks.sink import ReleasingSink
from headrace.lowlevel.topology.computation import IntervalComputation
from headrace.lowlevel.topology.redelivery import Once, by_record_id
from headrace.lowlevel.topology.topology import UNSHARED, Topology
from headrace.options.pipeline_options import EngineOptions
from headrace.sdk.coders.registry import registry
from headrace.sdk.compiler.collection_graph import CollectionGraph, planned_step
from headrace.sdk.compiler.execution_strategy import (
    ALL_KEYS,
    ExecutionStrategy,
    Grouper,
    grouping_strategy,
    one_for_each_step,
    steps_of_program,
)
from headrace.sdk.compiler.keyed_computations import (
    GroupingPlan,
    LateOutput,
    add_gate,
    add_grouping,
    add_late_data,
    add_side_input,
    key_of,
)
from headrace.sdk.functions.declarations import DeclaredState, Splitting
from headrace.sdk.graph.pvalue import BasePipeline, Collection, Step
from headrace.sdk.model.element_form import ElementForm, GroupingInputForm, plain_form
from headrace.sdk.model.late_element import LATE_DATA
from headrace.sdk.operators.fusion.stage import Stage
from headrace.sdk.operators.fusion.stage_plan import Exit, StagePlan, WindowStep
from headrace.sdk.operators.grouping.drain_mark import DrainMark
from headrace.sdk.operators.grouping.reshuffle import Route, Scatter, Shuffle
from headrace.sdk.operators.splittable.splittable_par_do import SplittableParDo, SplittablePlan
from headrace.sdk.operators.splittable.work_item import InitialSplitting, SplittingPlan
from headrace.sdk.operators.stateful.stateful_par_do import StatefulParDo, StatefulPlan
from headrace.sdk.transforms.core.flatten import Flatten
from headrace.sdk.transforms.core.group_by_key import CombineByKey, JoinGrouping
from headrace.sdk.transforms.core.low_level import RunComputation, Source, Write
from headrace.sdk.transforms.core.reshuffle import Reshuffle, ReshufflePerKey, Shuffling
from headrace.sdk.transforms.core.steps import (
    GROUPING,
    declared_state,
    is_fused,
    par_do_of,
    runs_by_key,
    side_inputs_of,
    splitting,
    stream_of,
)
from headrace.sdk.transforms.core.window_into import WindowInto

_log = logging.getLogger("headrace.sdk.compile")


def _key_behind_gate(value: object) -> object:
    """The key of a pair that has passed a gate, in the form SIDED."""
    (key, _), *_ = cast("tuple[tuple[object, object], object, object, object]", value)
    return key


def compile_pipeline(pipeline: BasePipeline) -> Topology:
    """The topology of a pipeline. Raises `TopologyError` for one that cannot run.

    >>> from headrace.sdk.transforms.core.create import Create
    >>> from headrace.sdk.transforms.core.par_do import Map
    >>> from headrace.sdk.graph.pipeline_graph import PipelineGraph
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> pipeline = PipelineGraph(PipelineOptions([]))
    >>> _ = pipeline | "Numbers" >> Create([1, 2]) | "Double" >> Map(lambda number: 2 * number)
    >>> topology = compile_pipeline(pipeline)
    >>> list(topology.injectors), list(topology.inlines)
    (['Numbers'], ['Double'])
    """
    return compile_steps(pipeline.steps, pipeline.options.view_as(EngineOptions).drain)


def compile_steps(steps: Sequence[Step], drains: bool = False) -> Topology:
    """The topology of steps, which may include steps that are not part of a pipeline. As `compile_pipeline`.

    Args:
        steps: The steps.
        drains: Whether input without an end ends where it was committed last.
    """
    return _Compiler(CollectionGraph(steps), drains).topology()


def execution_strategies(pipeline: BasePipeline) -> list[ExecutionStrategy]:
    """Whether each step of a pipeline is vectorized, and why not.

    >>> from headrace.sdk.transforms.core.create import Create
    >>> from headrace.sdk.transforms.core.group_by_key import GroupByKey
    >>> from headrace.sdk.graph.pipeline_graph import PipelineGraph
    >>> from headrace.options.pipeline_options import PipelineOptions
    >>> pipeline = PipelineGraph(PipelineOptions([]))
    >>> _ = pipeline | Create([("a", 1)]) | GroupByKey()
    >>> print(execution_strategies(pipeline)[-1])
    step 'GroupByKey' processes all keys at once
    """
    compiler = _Compiler(CollectionGraph(pipeline.steps))
    compiler.topology()
    return compiler.strategies


class _Compiler:
    def __init__(self, graph: CollectionGraph, drains: bool = False) -> None:
        self._graph, self._drains = graph, drains
        self._topology = Topology(key_coder=registry.key_coder())
        self._streams: dict[str, str] = {}
        self._joined: dict[Collection, Collection] = {}
        """Output of the grouping of a `Join` -> the joined rows, which the stream of the grouping carries."""
        self._of_groupings: list[ExecutionStrategy] = []
        self._of_elements: list[ExecutionStrategy] = []

    @property
    def strategies(self) -> list[ExecutionStrategy]:
        """The execution strategy of each step, in the order of the topology."""
        return one_for_each_step(self._of_groupings, self._of_elements)

    def topology(self) -> Topology:
        """Add every step in the order of the program."""
        for step in self._graph.steps:
            self._add(step)
        for collection, name in self._graph.side_inputs.items():
            add_side_input(
                self._topology,
                name,
                collection.windowing,
                _grouping_inputs(self._exit_to_side_input(collection)),
                takes_back=self._graph.may_retract(collection),
                readers=self._graph.side_input_readers(collection),
            )
        names = [*self._topology.keyed, *self._topology.injectors]
        self._topology.default_names.update(_default_names(self._graph.steps, names))
        if _log.isEnabledFor(logging.INFO):
            for told in steps_of_program(self._graph.steps, self.strategies):
                _log.info("%s", told.strategy)
        return self._topology

    def _add(self, step: Step) -> None:
        transform, label = step.transform, step.full_label
        for output in step.outputs.values():
            if self._graph.begins_stage(output):
                self._claim(self._stream(output), label)
        if isinstance(transform, Source):
            for tag, output in step.outputs.items():
                injector = transform.injector_of(tag)
                if self._drains and not transform.is_bounded:
                    injector = cast(Injector, EndedInjector(injector))
                self._topology.injector(self._stream(output), injector)
        elif isinstance(transform, GROUPING):
            self._group(step)
        elif (state := declared_state(step)) is not None:
            self._stateful(step, state)
        elif (found := splitting(step)) is not None:
            self._splittable(step, found)
        elif isinstance(transform, Shuffling):
            self._shuffle(step, transform)
        elif isinstance(transform, RunComputation):
            streams = [self._exit_to(step, index).stream for index in range(len(step.inputs))]
            inputs = dict(zip(streams, transform.keys, strict=True))
            is_vectorized = isinstance(transform.computation, IntervalComputation)
            obstacle = None if is_vectorized else f"{type(transform.computation).__name__} is no ColumnComputation"
            self._of_groupings.append(ExecutionStrategy(label, ALL_KEYS, "key by key", obstacle))
            self._topology.computation(label, transform.computation, inputs, transform.streams, transform.dead_letters)
        elif isinstance(transform, Write):
            stream, sink = self._exit_to(step, 0).stream, transform.sink()
            self._topology.sink(label, stream if isinstance(sink, ReleasingSink) else self._once(stream), sink)
        elif side_inputs_of(step):
            self._add_stage_behind_gate(step)
        for output in step.outputs.values():
            if self._graph.begins_stage(output):
                self._stage(output)

    def _once(self, stream: str) -> str:
        """The stream for a reader that cannot detect duplicates, such as a combiner or a vectorized stage."""
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

    # Streams and exits

    def _stream(self, collection: Collection) -> str:
        """The stream that carries a collection which begins a stage."""
        producer = collection.producer
        assert producer is not None
        if isinstance(producer.transform, RunComputation):
            assert collection.tag is not None
            return collection.tag
        return stream_of(collection)

    def _exit_to(self, step: Step, index: int) -> Exit:
        """The exit for the elements of an input of a step outside a stage; `_plan_readers` sets its source."""
        collection = self._graph.inputs(step)[index]
        label, transform = step.full_label, step.transform
        if side_inputs_of(step) and splitting(step) is None:
            return Exit(label, 0, f"{label}#main", ElementForm.WINDOWED)
        if isinstance(transform, Flatten):
            output = step.outputs[None]
            spare = f"{label}#windowed" if self._graph.has_spare(output) else None
            return Exit(label, 0, label, self._graph.forms[output], spare=spare)
        if isinstance(transform, (*GROUPING, ReshufflePerKey)) or runs_by_key(step):
            form = ElementForm.PLAIN if self._graph.forms[collection] is ElementForm.PLAIN else ElementForm.WINDOWED
            spare = f"{label}#in windowed" if self._graph.has_spare(collection) else None
            return Exit(label, 0, f"{label}#in", form, keyed=splitting(step) is None, spare=spare)
        if isinstance(transform, Reshuffle):
            spare = f"{label}#in windowed" if self._graph.has_spare(collection) else None
            return Exit(label, 0, f"{label}#in", self._graph.forms[step.outputs[None]], spare=spare)
        if self._is_bare(collection):
            return Exit(label, 0, self._stream(collection), None)
        return Exit(label, 0, f"{label}#in{index}", None)

    def _exit_to_side_input(self, collection: Collection) -> Exit:
        """The exit for the elements of a side input, which leads to its grouping."""
        name = self._graph.side_inputs[collection]
        form = ElementForm.PLAIN if self._graph.forms[collection] is ElementForm.PLAIN else ElementForm.WINDOWED
        spare = f"{name}#windowed" if self._graph.has_spare(collection) else None
        return Exit(name, 0, f"{name}#in", form, spare=spare)

    def _is_bare(self, collection: Collection) -> bool:
        """Whether a stream of the topology carries the bare values of a collection."""
        graph = self._graph
        plain = graph.forms[collection] is ElementForm.PLAIN and not graph.has_spare(collection)
        return plain and graph.begins_stage(collection)

    # Stages

    def _stage(self, begin: Collection) -> None:
        """Add the stage of a collection that a stream carries, if any step or exit belongs to it."""
        stream, root = self._stream(begin), self._joined.get(begin, begin)
        plan = StagePlan({stream: self._graph.forms[root]}, [root.windowing])
        if self._graph.has_spare(root):
            plan.entries[f"{stream}#windowed"] = ElementForm.WINDOWED
        self._plan_readers(plan, root, 0)
        if plan.steps or plan.exits:
            self._add_stage(plan, stream)

    def _add_stage(self, plan: StagePlan, stream: str) -> None:
        name = plan.name(stream)
        if any(step.fn.has_finish_bundle() for step in plan.element_steps()):
            plan.entries = {self._once(entry): form for entry, form in plan.entries.items()}
        stage = Stage(name, plan)
        self._of_elements += [
            ExecutionStrategy(step, "columns where its input has them", "elements one by one", obstacle)
            for step, obstacle in stage.paths()
        ]
        self._topology.inline(name, stage, list(plan.entries), plan.outputs())

    def _gate(self, step: Step, entry: str) -> str:
        """Add the gate of a step with side inputs; returns the stream of elements of `entry` that pass it."""
        main = self._graph.inputs(step)[0]
        sides = [(self._graph.side_inputs[side.pvalue], side) for side in side_inputs_of(step)]
        stream = self._late_stream(step)
        late = None if stream is None else LateOutput(stream, has_keys=runs_by_key(step))
        may_retract = self._graph.may_retract(main)
        return add_gate(self._topology, step.full_label, main.windowing, sides, entry, may_retract, late)

    def _late_stream(self, step: Step) -> str | None:
        """The stream of what a step drops as late; None if nothing reads it."""
        late = step.outputs.get(LATE_DATA)
        return self._stream(late) if late is not None and late in self._graph.readers else None

    def _send_late(self, step: Step, forms: Mapping[str, ElementForm]) -> None:
        """Send what a keyed step drops as late to a stream, if something reads it; `forms` has its input streams."""
        stream = self._late_stream(step)
        if stream is not None:
            add_late_data(self._topology, step.full_label, self._graph.inputs(step)[0].windowing, forms, stream)

    def _add_stage_behind_gate(self, step: Step) -> None:
        """Add the gate of a step with side inputs, and the stage that begins with this step."""
        ready = self._gate(step, self._exit_to(step, 0).stream)
        plan = StagePlan({ready: ElementForm.SIDED}, [self._graph.inputs(step)[0].windowing])
        self._plan_step(plan, step, 0)
        self._add_stage(plan, ready)

    def _plan_readers(self, plan: StagePlan, collection: Collection, node: int) -> None:
        for step, index in self._graph.readers.get(collection, ()):
            if is_fused(step) and not side_inputs_of(step):
                self._plan_step(plan, step, node)
            elif (leave := self._exit_to(step, index)).stream not in plan.entries:
                plan.exits.append(replace(leave, source=node))
        if collection in self._graph.side_inputs:
            plan.exits.append(replace(self._exit_to_side_input(collection), source=node))

    def _plan_step(self, plan: StagePlan, step: Step, node: int) -> None:
        outputs = {tag: it for tag, it in step.outputs.items() if tag != LATE_DATA and self._is_seen(it)}
        numbers = {tag: len(plan.windowings) + i for i, tag in enumerate(outputs)}
        plan.windowings += [output.windowing for output in outputs.values()]
        if not isinstance(step.transform, WindowInto):
            plan.steps.append(planned_step(step, node, numbers))
        elif numbers:
            retracts = self._graph.may_retract(self._graph.inputs(step)[0])
            plan.steps.append(WindowStep(step.full_label, node, numbers[None], retracts))
        for tag, output in outputs.items():
            self._plan_readers(plan, output, numbers[tag])

    def _is_seen(self, output: Collection) -> bool:
        """Whether anything sees the elements of an output: a step, or a window function of the user's own."""
        return output in self._graph.readers or plain_form(output.windowing) is not ElementForm.PLAIN

    # Groupings

    def _group(self, step: Step) -> None:
        transform, label = step.transform, step.full_label
        assert isinstance(transform, GROUPING), "the caller has looked"
        streams = _grouping_inputs(self._exit_to(step, 0))
        windowing = self._graph.inputs(step)[0].windowing
        combine = transform.combine_fn if isinstance(transform, CombineByKey) else None
        if combine is not None:
            streams = {self._once(stream): form for stream, form in streams.items()}
        self._send_late(step, {stream: ElementForm(form.value) for stream, form in streams.items()})
        takes_back = self._graph.may_retract(self._graph.inputs(step)[0])
        fanout = transform.fanout if isinstance(transform, CombineByKey) else None
        made = transform.made if isinstance(transform, JoinGrouping) else None
        joining = None if made is None else self._graph.joining(step, made.steps)
        strategy = grouping_strategy(
            windowing,
            combine,
            streams.values(),
            takes_back=takes_back,
            has_fanout=fanout is not None,
            joins=joining is not None,
        )
        if joining is not None and strategy.grouper is Grouper.JOIN:
            self._joined[step.outputs[None]] = joining[-1].outputs[None]
        self._of_groupings.append(strategy.of_step(label))
        plan = GroupingPlan(
            *(transform, label, windowing, combine, fanout, takes_back, strategy, made, self._is_drained(step)),
            joining=joining or (),
        )
        add_grouping(self._topology, plan, streams)

    def _is_drained(self, step: Step) -> bool:
        """Whether the input of a step ends by a drain, which fires what would have waited longer."""
        return self._drains and not self._graph.inputs(step)[0].is_bounded

    def _shuffle(self, step: Step, transform: Shuffling) -> None:
        entry, stream = self._exit_to(step, 0), self._stream(step.outputs[None])
        assert entry.form is not None, "a shuffle's exit has a form"
        routes = {entry.stream: Route(entry.form, stream)}
        if entry.spare is not None:
            routes[entry.spare] = Route(ElementForm.WINDOWED, f"{stream}#windowed")
        if isinstance(transform, Reshuffle):
            for source in list(routes):
                scattered, once = f"{source} scattered", self._once(source)
                scatter = Scatter(transform.num_buckets, scattered)
                self._topology.inline(f"{source} scattering", scatter, [once], [scattered], step=step.full_label)
                routes[scattered] = routes.pop(source)
        shuffle = Shuffle(routes, keep_keys=isinstance(transform, ReshufflePerKey))
        outputs = [route.output_stream for route in routes.values()]
        self._topology.computation(step.full_label, shuffle, dict.fromkeys(routes, key_of), outputs)

    # State and timers

    def _stateful(self, step: Step, state: DeclaredState) -> None:
        forms, key_of = self._stateful_inputs(step)
        self._send_late(step, forms)
        outputs, given = self._read_outputs(step), self._graph.inputs(step)[0]
        par_do, windowing = par_do_of(step), given.windowing
        is_drained = self._is_drained(step)
        plan = StatefulPlan(
            *(step.full_label, par_do.fn, par_do.arguments, state, windowing, forms, outputs, given.is_bounded),
            is_drained,
        )
        inputs, streams = dict.fromkeys(forms, key_of), list(outputs.values())
        encoding = par_do.key_encoding
        at_end = DrainMark() if is_drained else None
        self._topology.computation(
            step.full_label, StatefulParDo(plan), inputs, streams, key_encoding=encoding, at_end=at_end
        )

    def _read_outputs(self, step: Step) -> dict[str | None, str]:
        """Tag -> stream, for the outputs of a step that something reads."""
        read = {tag: output for tag, output in step.outputs.items() if output in self._graph.readers}
        return {tag: self._stream(output) for tag, output in read.items() if tag != LATE_DATA}

    def _stateful_inputs(self, step: Step) -> tuple[dict[str, ElementForm], KeyExtractor]:
        """The streams into a stateful step, and where the key is in their values."""
        entry = self._exit_to(step, 0)
        if side_inputs_of(step):
            return {self._gate(step, entry.stream): ElementForm.SIDED}, _key_behind_gate
        assert entry.form is not None, "a keyed exit has a form"
        spares = {} if entry.spare is None else {entry.spare: ElementForm.WINDOWED}
        return {entry.stream: entry.form, **spares}, key_of

    # Splittable DoFns

    def _splittable(self, step: Step, splitting: Splitting) -> None:
        label, entry, items = step.full_label, self._exit_to(step, 0), f"{step.full_label}#items"
        windowing, is_sided = self._graph.inputs(step)[0].windowing, bool(side_inputs_of(step))
        assert entry.form is not None, "the exit to a splittable step has a form"
        forms = {self._once(entry.stream): entry.form}
        if entry.spare is not None:
            forms[self._once(entry.spare)] = ElementForm.WINDOWED
        by_window = splitting.by_window or is_sided
        splits = SplittingPlan(label, splitting, windowing, forms, by_window, items, self._drains)
        self._topology.inline(f"{label}#split", InitialSplitting(splits), list(forms), [items], step=label)
        ready = self._gate(step, items) if is_sided else items
        par_do, outputs = par_do_of(step), self._read_outputs(step)
        plan = SplittablePlan(label, par_do.fn, par_do.arguments, splitting, windowing, is_sided, outputs, self._drains)
        self._topology.computation(label, SplittableParDo(plan), {ready: _key_behind_gate}, list(outputs.values()))


def _grouping_inputs(entry: Exit) -> dict[str, GroupingInputForm]:
    """The streams into a grouping, and how they carry windows."""
    streams = {entry.stream: GroupingInputForm.PLAIN if entry.form is ElementForm.PLAIN else GroupingInputForm.WINDOWED}
    if entry.spare is not None:
        streams[entry.spare] = GroupingInputForm.WINDOWED
    return streams


def _default_names(steps: Iterable[Step], names: Iterable[str]) -> dict[str, str]:
    """Computation or injector -> which one it is of those with its default label; see `Topology.default_names`."""
    alike = {step.full_label: step.alike for step in steps if step.alike}
    found = {}
    for name in names if alike else ():
        ends = [*(place for place, letter in enumerate(name) if letter in "/#"), len(name)]
        label = next((name[:end] for end in reversed(ends) if name[:end] in alike), None)
        if label is not None:
            found[name] = "; ".join(filter(None, (step.description() for step in alike[label]))) or UNSHARED
    return found
