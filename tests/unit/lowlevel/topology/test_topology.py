"""Wrong topologies are refused when they are built; levels and circles of right ones."""

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, InlineComputation, Topology, TopologyError


def first(value):
    return value[0]


def chain(*names, back=()):
    """A topology in which each computation feeds the next; `back` names (sender, receiver) pairs besides."""
    topology = Topology()
    topology.injector("in", BoundedInjector([]))
    for i, name in enumerate(names):
        inputs = {"in" if i == 0 else names[i - 1]: first}
        inputs |= {f"{sender}>{receiver}": first for sender, receiver in back if receiver == name}
        outputs = [name] + [f"{sender}>{receiver}" for sender, receiver in back if sender == name]
        topology.computation(name, Computation(), inputs, outputs)
    return topology


def test_unknown_stream_is_named_with_the_known_ones():
    topology = chain("a")
    topology.computation("b", Computation(), {"nowhere": first})
    with pytest.raises(TopologyError, match=r"'b' reads stream 'nowhere'.*streams: a, in"):
        topology.validate()


def test_missing_extractor():
    with pytest.raises(TopologyError, match="'a' has no key extractor for its input stream 'in'"):
        Topology().computation("a", Computation(), {"in": None})


def test_two_computations_of_one_name():
    topology = chain("a")
    with pytest.raises(TopologyError, match="two computations are named 'a'"):
        topology.computation("a", Computation(), {"in": first})
    with pytest.raises(TopologyError, match="two computations are named 'a'"):
        topology.inline("a", InlineComputation(), ["in"])


def test_class_instead_of_object():
    with pytest.raises(TopologyError, match="'a' is a type; give an instance of Computation"):
        Topology().computation("a", Computation, {"in": first})


def test_no_injector():
    with pytest.raises(TopologyError, match="no injector"):
        Topology().validate()


def test_two_injectors_for_one_stream():
    with pytest.raises(TopologyError, match="'in' already has an injector"):
        chain("a").injector("in", BoundedInjector([]))


def test_two_sinks_of_one_name_and_a_sink_on_nothing():
    topology = chain("a")
    topology.sink("s", "a", CallSink(print))
    with pytest.raises(TopologyError, match="two sinks are named 's'"):
        topology.sink("s", "a", CallSink(print))
    topology.sink("t", "lost", CallSink(print))
    with pytest.raises(TopologyError, match="sink 't' reads stream 'lost'"):
        topology.validate()


def test_computation_without_input():
    topology = chain("a")
    topology.computation("b", Computation(), {})
    with pytest.raises(TopologyError, match="'b' subscribes to no stream"):
        topology.validate()


def test_circle_of_inline_computations():
    topology = chain("a")
    topology.inline("x", InlineComputation(), ["a", "y"], ["x"])
    topology.inline("y", InlineComputation(), ["x"], ["y"])
    with pytest.raises(TopologyError, match="feeds itself"):
        topology.validate()


def test_levels_follow_the_longest_way():
    topology = chain("a", "b", "c")
    topology.computation("d", Computation(), {"a": first, "c": first})
    assert topology.levels() == [["a"], ["b"], ["c"], ["d"]]


def test_levels_see_through_inline_computations():
    topology = chain("a")
    topology.inline("x", InlineComputation(), ["a"], ["x"])
    topology.computation("b", Computation(), {"x": first})
    assert topology.levels() == [["a"], ["b"]]
    assert topology.senders()["b"] == {"a"}
    assert topology.sources()["b"] == set()


def test_circles():
    topology = chain("a", "b", "c", back=[("b", "a")])
    topology.validate()
    assert topology.levels() == [["a"], ["b"], ["c"]]
    assert topology.circles() == {"a": {"a", "b"}, "b": {"a", "b"}, "c": frozenset()}


def test_inline_order_puts_feeders_first():
    topology = chain("a")
    topology.inline("z", InlineComputation(), ["y"], ["z"])
    topology.inline("y", InlineComputation(), ["x"], ["y"])
    topology.inline("x", InlineComputation(), ["a"], ["x"])
    assert topology.inline_order() == ["x", "y", "z"]
