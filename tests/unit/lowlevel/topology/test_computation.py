"""The model as a user sees it: keys by consumer, streams by name, record formats, state that holds, late data."""

import json
from dataclasses import dataclass

import pytest

from headrace.lowlevel import CallSink, Computation, ManualInjector, StepError, Topology
from tests.unit.runners.local.test_local_runner import collect, first, itself


class Count(Computation):
    """Counts what it sees of a key."""

    def __init__(self, stream):
        self.stream = stream

    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.produce(self.stream, (context.key, context.state))


def test_two_consumers_key_one_stream_differently(run):
    topology = Topology()
    topology.injector(
        "searches", ManualInjector().records((("cats", "de"), 1), (("cats", "fr"), 1), (("dogs", "de"), 1))
    )
    topology.computation("by query", Count("queries"), {"searches": lambda search: search[0]}, ["queries"])
    topology.computation("by country", Count("countries"), {"searches": lambda search: search[1]}, ["countries"])
    queries, countries = collect(topology, "queries"), collect(topology, "countries")
    run(topology)
    assert sorted(queries) == [("cats", 1), ("cats", 2), ("dogs", 1)]
    assert sorted(countries) == [("de", 1), ("de", 2), ("fr", 1)]


def test_several_computations_produce_to_one_stream_that_several_read(run):
    topology = Topology()
    topology.injector("a", ManualInjector().records(("x", 1)))
    topology.injector("b", ManualInjector().records(("y", 1)))
    topology.computation("one", Count("all"), {"a": itself}, ["all"])
    topology.computation("two", Count("all"), {"b": itself}, ["all"])
    topology.computation("three", Count("out"), {"all": first}, ["out"])
    topology.computation("four", Count("out"), {"all": lambda value: "all"}, ["out"])
    out = collect(topology, "out")
    run(topology)
    assert sorted(out) == [("all", 1), ("all", 2), ("x", 1), ("y", 1)]


@dataclass(frozen=True)
class Anomaly:
    key: str


def test_record_formats(run):
    class Detector(Computation):
        def process_record(self, record, context):
            context.produce("anomalies", Anomaly(record.value) if record.value != "bad" else record.value)

    def found(*values):
        topology = Topology()
        topology.injector("in", ManualInjector().records(*((value, 1) for value in values)))
        topology.computation("detector", Detector(), {"in": itself}, {"anomalies": Anomaly})
        anomalies = collect(topology, "anomalies")
        run(topology)
        return anomalies

    assert found("good") == [Anomaly("good")]
    with pytest.raises(StepError, match=r"'detector' raised at 'bad'(.|\n)*takes records of type Anomaly, not str"):
        found("good", "bad")


class Json:
    """A serialization of the user's."""

    def encode(self, value):
        return json.dumps(value).encode()

    def decode(self, data):
        return json.loads(data)


class Bucket(Computation):
    """Keeps a sum whose state carries a timestamp: nothing behind it passes until it is sent."""

    state_coder = Json()

    def initial_state(self):
        return {"sum": 0}

    def process_record(self, record, context):
        context.state["sum"] += record.value[1]
        context.hold(10)
        context.set_timer("send", 50)

    def process_timer(self, timer, context):
        context.produce("sums", (context.key, context.state["sum"]), 10)
        context.state = None
        context.release()


class Watch(Computation):
    def process_record(self, record, context):
        context.produce("seen", (context.watermark, context.is_late(record)))


def test_state_behind_the_users_serialization_and_with_a_timestamp_that_holds(run):
    topology = Topology()
    injector = (
        ManualInjector().records((("a", 1), 12), (("a", 2), 14)).watermark(40).records((("a", 3), 45)).watermark(60)
    )
    topology.injector("in", injector)
    topology.computation("bucket", Bucket(), {"in": first}, ["sums"])
    topology.computation("watch", Watch(), {"sums": first}, ["seen"])
    sums, seen, watermarks = collect(topology, "sums"), collect(topology, "seen"), []
    topology.sink("w", "sums", CallSink(lambda epoch, rows: watermarks.append(epoch)))
    run(topology)
    assert sums == [("a", 6)]
    assert seen == [(10, False)]  # the watermark had come to 40, but what was held at 10 is not late behind it
    assert watermarks == [4]


def test_late_records_are_the_computations_own_decision_and_counted(run):
    class Merging(Computation):
        def process_record(self, record, context):
            if context.is_late(record) and record.timestamp < context.watermark - 10:
                context.drop_late()
            else:
                context.produce("out", record.value)

    topology = Topology()
    topology.injector("in", ManualInjector().records(("a", 5)).watermark(20).records(("b", 19), ("c", 9), ("d", 20)))
    topology.computation("merging", Merging(), {"in": lambda value: "k"}, ["out"])
    out = collect(topology, "out")
    result = run(topology)
    assert out == ["a", "b", "d"]
    counters = result.counters["merging"]
    assert (counters["records"], counters["late"], counters["dropped_late"]) == (4, 2, 1)
    assert counters["records"] == len(out) + counters["dropped_late"]
