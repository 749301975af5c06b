"""Methods that are meant to be hooks and that nothing calls are named, and no others."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink, Computation, Topology
from headrace.lowlevel.injectors.injector import INJECTOR_HOOKS
from headrace.lowlevel.sinks.sink import SINK_HOOKS
from headrace.lowlevel.uncalled_hooks import misspelt_hooks
from headrace.runners.local import LocalRunner


class Injects(BoundedInjector):
    def commited(self, position):
        raise AssertionError

    def run_end(self):
        raise AssertionError


class Sends:
    def stage(self, batch, epoch, interval, token):
        raise AssertionError

    def deliver(self, epoch, receipts):
        raise AssertionError

    def finnish(self, epoch, ended):
        raise AssertionError

    def begin(self, anew):
        raise AssertionError


class Counts(Computation):
    def process_records(self, record, context):
        raise AssertionError

    def teardwon(self):
        raise AssertionError


class Words(beam.DoFn):
    def process(self, line):
        yield from self.processes(line)

    def processes(self, line):
        return line.split()

    def finish_bundel(self):
        raise AssertionError

    def setUp(self):  # what is misspelt here
        raise AssertionError


class Total(beam.CombineFn):
    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, element):
        return accumulator + element

    def merge_accumulators(self, accumulators):
        return sum(accumulators)

    def extract_output(self, accumulator):
        return accumulator

    def compacts(self, accumulator):
        raise AssertionError


def test_hooks_of_sources_sinks_and_computations(caplog):
    topology = Topology()
    topology.injector("lines", Injects([]))
    topology.sink("send", "lines", Sends())
    topology.computation("count", Counts(), {"lines": str})
    assert [record.getMessage() for record in caplog.records] == [
        "the injector of stream 'lines' is a Injects, whose method commited nothing calls; if it is meant to be "
        "committed, rename it",
        "the injector of stream 'lines' is a Injects, whose method run_end nothing calls; if it is meant to be "
        "run_ended, rename it",
        "sink 'send' is a Sends, whose method finnish nothing calls; if it is meant to be finish, rename it",
        "sink 'send' is a Sends, which has begin and no finish, so that neither is called; define both, as "
        "BeginningSink says",
        "computation 'count' is a Counts, whose method process_records nothing calls; if it is meant to be "
        "process_record, rename it",
        "computation 'count' is a Counts, whose method teardwon nothing calls; if it is meant to be teardown, "
        "rename it",
    ]


def test_a_sink_with_the_base_may_have_one_hook_of_two(caplog):
    called = []
    begins = type("Begins", (CallSink,), {"begin": lambda self, anew: called.append(anew)})
    topology = Topology()
    topology.injector("lines", BoundedInjector([(1, 1)]))
    topology.sink("rows", "lines", begins(lambda epoch, rows: called.append(rows)))
    LocalRunner().run_topology(topology)
    assert called == [True, [(1, 1)]] and not caplog.records


def test_hooks_of_functions(caplog):
    with beam.Pipeline("LocalRunner") as pipeline:
        words = pipeline | beam.Create(["to be"]) | "Words" >> beam.ParDo(Words())
        lengths = words | beam.Map(lambda word: (word, len(word)))
        _ = lengths | "Total" >> beam.CombinePerKey(Total())
    assert [record.getMessage() for record in caplog.records] == [
        "the DoFn of step 'Words' is a Words, whose method finish_bundel nothing calls; if it is meant to be "
        "finish_bundle, rename it",
        "the DoFn of step 'Words' is a Words, whose method setUp nothing calls; if it is meant to be setup, rename it",
        "the CombineFn of step 'Total' is a Total, whose method compacts nothing calls; if it is meant to be compact, "
        "rename it",
    ]


@pytest.mark.parametrize("hook", sorted(INJECTOR_HOOKS | SINK_HOOKS))
def test_each_hook_is_known_with_two_letters_exchanged_and_with_one_too_many(hook):
    middle = len(hook) // 2
    for name in hook[: middle - 1] + hook[middle] + hook[middle - 1] + hook[middle + 1 :], hook + hook[-1]:
        if name not in INJECTOR_HOOKS | SINK_HOOKS and len(hook) > 5:
            assert misspelt_hooks(type("Theirs", (), {name: print})(), INJECTOR_HOOKS | SINK_HOOKS) == {name: hook}


def test_methods_of_other_names_are_left_alone():
    names = "read", "write", "commit", "close", "start", "process_element", "plan", "_commited"
    given = type("Theirs", (), dict.fromkeys(names, print))()
    assert not misspelt_hooks(given, INJECTOR_HOOKS | SINK_HOOKS)
