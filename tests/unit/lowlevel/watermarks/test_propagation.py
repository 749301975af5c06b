"""The recursive definition of the low watermark."""

import pytest

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.injectors.injector import BoundedInjector
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.watermarks.propagation import Frontier, InjectorProgress, Propagation
from tests.unit.lowlevel.topology.test_topology import chain, first


def frontier(injector, holds=None, pending=None):
    return Frontier({"in": InjectorProgress(injector)}, holds or {}, pending or {})


def test_watermark_flows_down_the_chain():
    known = frontier(100)
    assert Propagation(chain("a", "b")).inputs(known, known, {}) == {"a": 100, "b": 100}


def test_a_hold_keeps_those_behind_it_back_but_not_its_own_input():
    known = frontier(100, holds={"a": 30})
    assert Propagation(chain("a", "b", "c")).inputs(known, known, {}) == {"a": 100, "b": 30, "c": 30}


def test_never_back():
    known = frontier(100, holds={"a": 30})
    assert Propagation(chain("a", "b")).inputs(known, known, {"a": 120, "b": 50}) == {"a": 120, "b": 50}


def test_minimum_over_all_senders():
    topology = chain("a", "b")
    topology.computation("c", type(topology.keyed["a"].computation)(), {"in": first, "b": first})
    known = frontier(100, holds={"b": 7})
    assert Propagation(topology).inputs(known, known, {})["c"] == 7


def test_circle_follows_one_epoch_behind_and_never_leads_its_own_productions():
    propagation = Propagation(chain("a", "b", "c", back=[("b", "a")]))
    before, now = frontier(50), frontier(100)
    assert propagation.inputs(now, before, {}) == {"a": 50, "b": 50, "c": 50}
    before = frontier(100, pending={"a": 60})
    assert propagation.inputs(frontier(200), before, {})["a"] == 60
    before = frontier(100, holds={"b": 40})
    assert propagation.inputs(frontier(200), before, {})["a"] == 40


def test_bounded_out_of_orderness_and_the_end():
    progress = InjectorProgress(delay=30)
    assert progress.watermark == MIN_TIMESTAMP
    progress = progress.with_delivery(greatest=100, watermark=MIN_TIMESTAMP, done=False)
    assert progress.watermark == 70
    progress = progress.with_delivery(greatest=80, watermark=MIN_TIMESTAMP, done=False)
    assert progress.watermark == 70
    assert progress.with_delivery(greatest=MIN_TIMESTAMP, watermark=MIN_TIMESTAMP, done=True).watermark == MAX_TIMESTAMP


def test_inputs_aside_do_not_hold_the_watermark_but_come_before():
    topology = chain("a", "b")
    topology.injector("slow", BoundedInjector([]))
    same = type(topology.keyed["a"].computation)
    topology.computation("side", same(), {"slow": first}, ["side"])
    topology.computation("c", same(), {"in": first, "side": first, "slow": first}, aside=["side", "slow"])
    known = Frontier({"in": InjectorProgress(100), "slow": InjectorProgress(7)}, {"side": 3}, {})
    assert Propagation(topology).inputs(known, known, {})["c"] == 100
    assert Propagation(topology).inputs(known, known, {})["side"] == 7
    assert topology.levels()[1:] == [["b", "c"]]


@pytest.mark.parametrize("aside", [["in"], ["other"], ["in", "other"]])
def test_something_must_hold_the_watermark(aside):
    topology = chain("a")
    with pytest.raises(TopologyError, match="reads in and shall not wait for"):
        topology.computation("c", type(topology.keyed["a"].computation)(), {"in": first}, aside=aside)
