"""Which productions are weak, and what is refused when a topology or pipeline is built."""

from pickle import loads

import pytest

import headrace as beam
from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    Computation,
    InlineComputation,
    SendSink,
    Topology,
    TopologyError,
)
from headrace.lowlevel.code_pickling import dumps
from headrace.lowlevel.topology.weak_productions import releasing_sinks, weak_streams
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner, Scheduler
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.transforms.userstate import ReadModifyWriteStateSpec


class Weak(Computation):
    strong_productions = False

    def process_record(self, record, context):
        context.produce("out", record.value)


class Strong(Computation):
    def process_record(self, record, context):
        context.produce("out", record.value)


class Passing(InlineComputation):
    def process_batch(self, stream, batch, emit):
        emit("further", batch)


class Double(beam.DoFn):
    strong_productions = False

    def process(self, element):
        yield 2 * element


class Times(beam.DoFn):
    """With state."""

    strong_productions = False

    def process(self, element, times=beam.DoFn.StateParam(ReadModifyWriteStateSpec("times"))):
        times.write((times.read() or 0) + 1)
        yield (*element, times.read())


def topology(computation, sink, stream="out"):
    made = Topology()
    made.injector("in", BoundedInjector([(n, n) for n in range(4)]))
    made.computation("step", computation, {"in": lambda value: value}, ["out"])
    made.inline("passing", Passing(), ["out"], ["further"])
    made.sink("service", stream, sink)
    return made


def taken(build):
    """What a sink has when the first commit is about to be written, and in the end."""
    rows, before = [], []
    made = build(SendSink(lambda epoch, its: rows.extend(value for value, _ in its)))

    class Look(Scheduler):
        def step(self, name, epoch):
            if name == "commit" and not before:
                before.append(len(rows))

    LocalRunner(scheduler=Look()).run_topology(made, RunOptions())
    return before[0], sorted(rows)


def test_weak_rows_are_at_the_sink_before_the_commit_and_strong_ones_after():
    assert taken(lambda sink: topology(Weak(), sink)) == (4, [0, 1, 2, 3])
    assert taken(lambda sink: topology(Strong(), sink)) == (0, [0, 1, 2, 3])


def test_a_strong_step_behind_a_weak_one_is_strong():
    assert taken(lambda sink: topology(Weak(), sink, "further")) == (0, [0, 1, 2, 3])
    assert weak_streams(topology(Weak(), SendSink(print))) == {"out"}


def test_a_sink_that_delivers_what_is_committed_is_refused():
    wanted = r"sink 'service' is a CallSink, .* but step 'step' has weak productions, .*SendSink.*strong_productions"
    with pytest.raises(TopologyError, match=wanted):
        topology(Weak(), CallSink(print)).validate()
    topology(Strong(), CallSink(print)).validate()


@pytest.mark.parametrize("other", ["computation", "injector"])
def test_a_sink_of_weak_and_strong_productions_of_one_stream_is_refused(other):
    made = topology(Weak(), SendSink(print))
    if other == "injector":
        made.injector("out", BoundedInjector([]))
    else:
        made.computation("second", Strong(), {"in": lambda value: value}, ["out"])
    who = "source 'out'" if other == "injector" else "step 'second'"
    with pytest.raises(TopologyError, match=rf"'out', to which step 'step' produces weakly and {who} strongly"):
        made.validate()


def test_a_committed_epoch_whose_strong_rows_a_service_refuses_says_so():
    with pytest.raises(RuntimeError, match=r"the 4 rows of epoch 1 were not acknowledged; the epoch is committed"):
        LocalRunner().run_topology(topology(Strong(), SendSink(lambda *_: False)))


def compiled(build):
    pipeline = beam.Pipeline("LocalRunner")
    build(pipeline | "In" >> beam.Create([1, 2]))
    return compile_pipeline(pipeline)


def weak_sinks(build):
    """As a worker finds them, to which the topology was sent."""
    return list(releasing_sinks(loads(dumps(compiled(build)))))


def write(name):
    return name >> beam.io.Write(SendSink(print))


def test_the_last_function_before_a_sink_decides_in_a_fused_stage():
    def build(numbers):
        doubled = numbers | "Double" >> beam.ParDo(Double())
        _ = numbers | write("all")
        _ = doubled | write("doubled")
        _ = doubled | "Window" >> beam.WindowInto(beam.window.FixedWindows(10)) | write("windowed")
        _ = doubled | "Text" >> beam.Map(str) | write("text")
        guarded, _ = numbers | "Guarded" >> beam.ParDo(Double()).with_exception_handling()
        _ = guarded | write("guarded")
        grouped = doubled | "Pair" >> beam.WithKeys(lambda n: n) | beam.GroupByKey()
        _ = grouped | write("grouped")

    assert weak_sinks(build) == ["doubled", "windowed", "guarded"]


def test_functions_with_state_and_raw_computations_are_weak_if_they_say_so():
    def build(numbers):
        pairs = numbers | beam.WithKeys(lambda n: n)
        _ = pairs | "Times" >> beam.ParDo(Times()) | write("times")
        _ = numbers | "Raw" >> beam.RunComputation(Weak(), key=lambda n: n, outputs="out") | write("raw")

    assert weak_sinks(build) == ["times", "raw"]


def test_a_pipeline_with_a_file_behind_a_weak_function_is_refused(tmp_path):
    def build(numbers):
        texts = numbers | "Double" >> beam.ParDo(Double())
        _ = texts | "Out" >> beam.io.WriteToText(str(tmp_path / "out"))

    with pytest.raises(TopologyError, match=r"sink 'Out.*' is a EpochFileSink.* step 'Double' has weak productions"):
        compiled(build).validate()
