"""`explain` names whoever keeps a watermark back: in a live driver's state, and in what a checkpoint says."""

from __future__ import annotations

import random

import pytest

from headrace.lowlevel import (
    BoundedInjector,
    Computation,
    InjectorProcess,
    ManualInjector,
    ProcessInjector,
    StalledError,
    Topology,
    TopologyError,
)
from headrace.lowlevel.checkpoint import CheckpointView, Fingerprint, Manifest, PendingProduction
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.watermarks.authority import Holder
from headrace.lowlevel.watermarks.explain import (
    Held,
    Injected,
    Undelivered,
    WatermarkState,
    explain,
    furthest_back,
    timestamp_text,
)
from headrace.lowlevel.watermarks.propagation import Frontier, InjectorProgress, Propagation
from headrace.runners.engine.driver.checkpoint_journal import state_of
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Scheduler
from tests.unit.lowlevel.topology.test_topology import chain, first


def held(timestamp, key="k", tag="t"):
    return Holder(timestamp, encode_key(key), tag)


def test_the_injector_a_hold_or_a_production_that_is_oldest():
    topology = chain("a", "b", "c")
    at = {"a": 9, "b": 5, "c": 5}
    standing = WatermarkState(
        at, {"in": InjectorProgress(9)}, holders={"a": held(5, "britney", "window")}, pending={"c": 7}
    )
    found = explain(topology, standing, "c")
    assert (found.watermark, found.cause, found.chain) == (5, Held("a", 5, "britney", "window"), ("b", "c"))
    assert explain(topology, standing, "a").cause == Injected("in", 9)
    assert explain(
        topology, WatermarkState(at, {"in": InjectorProgress(9)}, pending={"b": 7}), "c"
    ).cause == Undelivered("b", 7)
    assert explain(topology, WatermarkState(at, {"in": InjectorProgress(MAX_TIMESTAMP)}), "c").cause is None


def test_a_steps_own_hold_is_not_what_it_waits_for_but_on_a_circle():
    standing = WatermarkState({}, {"in": InjectorProgress(9)}, holders={"b": held(5)})
    assert explain(chain("a", "b"), standing, "b").cause == Injected("in", 9)
    assert explain(chain("a", "b", back=[("b", "a")]), standing, "b").cause == Held("b", 5, "k", "t")
    assert explain(chain("a", "b", back=[("b", "a")]), standing, "a").cause == Held("b", 5, "k", "t")


def test_the_nearest_of_causes_that_are_equally_old():
    standing = WatermarkState({}, {"in": InjectorProgress(5)}, holders={"a": held(5), "b": held(5)}, pending={"b": 5})
    assert explain(chain("a", "b", "c"), standing, "c").cause == Held("b", 5, "k", "t")
    assert explain(chain("a", "b", "c"), standing, "b").cause == Undelivered("b", 5)


def test_inputs_aside_keep_nothing_back():
    topology = chain("a")
    topology.injector("slow", BoundedInjector([]))
    same = type(topology.keyed["a"].computation)
    topology.computation("b", same(), {"in": first, "slow": first, "a": first}, aside=["slow", "a"])
    assert explain(
        topology, WatermarkState({}, {"in": InjectorProgress(9), "slow": InjectorProgress(1)}, {}, {"a": held(2)}), "b"
    ).cause == Injected("in", 9)


def test_what_a_sink_has_not_acknowledged_keeps_nothing_back():
    waiting = [PendingProduction(level, 0, "a", at, b"") for level, at in ((0, 3), (1, 8), (1, 7))]
    fingerprint = Fingerprint.of(chain("a", "b"))
    manifest = Manifest(epoch=1, wall_clock=0, intervals={}, pending=tuple(waiting), topology=fingerprint)
    assert state_of(manifest).watermark_state().pending == {"a": 7}


def test_an_unknown_step_is_refused():
    with pytest.raises(TopologyError, match=r"no computation 'z' \(computations: a, b\)"):
        explain(chain("a", "b"), WatermarkState(), "z")


@pytest.mark.parametrize("seed", range(60))
def test_the_cause_has_exactly_the_watermark_that_propagation_computes(seed):
    dice = random.Random(seed)
    names = [f"s{number}" for number in range(dice.randint(1, 6))]
    topology, streams = Topology(), ["in"]
    topology.injector("in", BoundedInjector([]))
    topology.injector("other", BoundedInjector([]))
    for name in names:
        inputs = dict.fromkeys(dice.sample([*streams, "other"], dice.randint(1, len(streams))), first)
        topology.computation(name, Computation(), inputs, [name])
        streams.append(name)
    injectors = {stream: InjectorProgress(dice.randrange(100)) for stream in topology.injectors}
    holders = {name: held(dice.randrange(100), name) for name in names if dice.random() < 0.5}
    pending = {name: dice.randrange(100) for name in names if dice.random() < 0.3}
    known = Frontier(injectors, {name: holder.timestamp for name, holder in holders.items()}, pending)
    watermarks = Propagation(topology).inputs(known, known, {})
    standing = WatermarkState(watermarks, injectors, holders=holders, pending=pending)
    for name in names:
        found = explain(topology, standing, name)
        assert found.cause is not None and found.cause.timestamp == found.watermark == watermarks[name], f"seed {seed}"
        assert found.chain[-1] == name
        senders = topology.senders()
        assert all(one in senders[next_one] for one, next_one in zip(found.chain, found.chain[1:], strict=False))
    assert furthest_back(topology, standing).watermark == min(watermarks.values())


def test_times_beyond_the_calendar():
    assert timestamp_text(10**18) == "1000000000000000000 (after year 9999)"
    assert timestamp_text(-(10**18)) == "-1000000000000000000 (before year 1)"
    assert timestamp_text(MAX_TIMESTAMP) == "the end of time"


class Holding(Computation):
    """Holds the time of its record."""

    def process_record(self, record, context):
        context.hold(record.timestamp, "mine")
        context.produce("held", record.value)


class Passing(Computation):
    """Does nothing."""

    def process_record(self, record, context):
        context.state = record.value


class Stop(BaseException):
    """The driver is killed."""


class StopAfter(Scheduler):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def step(self, name, epoch):
        if (name, epoch) == ("committed", self.epoch):
            raise Stop


def standing_of(place, topology, epoch):
    with pytest.raises(Stop):
        LocalRunner(scheduler=StopAfter(epoch)).run_topology(topology, RunOptions(checkpoint=str(place)))
    manifest = CheckpointView.of(ObjectStore(place)).manifest
    assert manifest is not None and manifest.epoch == epoch
    return state_of(manifest).watermark_state(), manifest


def passing(injector):
    topology = Topology()
    topology.injector("in", injector)
    topology.computation("holding", Holding(), {"in": lambda value: value}, ["held"])
    topology.computation("passing", Passing(), {"held": lambda value: value})
    return topology


def test_a_checkpoint_names_the_key_that_holds(tmp_path):
    topology = passing(ManualInjector().records(("britney", 7), ("carly", 8)).watermark(20).watermark(30))
    standing, manifest = standing_of(tmp_path, topology, 2)
    found = explain(topology, standing, "passing")
    assert (found.watermark, found.cause, found.chain) == (7, Held("holding", 7, "britney", "mine"), ("passing",))
    assert explain(topology, standing, "holding").cause == Injected("in", 20)
    assert manifest.watermarks_of("holding") == {0: 7}
    assert str(found) == (
        "the input low watermark of step 'passing' is 7 (1970-01-01T00:00:00.000007Z)\n"
        "  step 'holding' holds the watermark at 7 for key 'britney' (hold 'mine', 1970-01-01T00:00:00.000007Z)"
    )


def test_a_checkpoint_names_the_process_that_is_silent(tmp_path):
    place = tmp_path / "shared"
    InjectorProcess.open(place, "host-a").write([("britney", 7)], watermark=7)
    topology = passing(ProcessInjector(place, {"host-a", "host-b"}))
    standing, _ = standing_of(tmp_path / "checkpoint", topology, 1)
    found = explain(topology, standing, "passing")
    assert found.cause == Injected("in", MIN_TIMESTAMP, "process 'host-b', which has never reported")
    assert str(found) == (
        "the input low watermark of step 'passing' is the beginning of time\n"
        "  source 'in' is at the beginning of time: it waits for process 'host-b', which has never reported\n"
        "  it is passed on by 'holding'"
    )


def test_a_stalled_run_says_the_same():
    topology = passing(BoundedInjector([("carly", 8), ("britney", 7)]))
    with pytest.raises(
        StalledError, match=r"ended but step 'holding' holds the watermark at 7 for key 'britney' \(hold 'mine'"
    ):
        LocalRunner().run_topology(topology)
