"""Side inputs in a topology: a grouping for each collection, a gate for each step with side inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import cast

from headrace.lowlevel.injectors.injector import BoundedInjector
from headrace.lowlevel.records.record import KeyExtractor
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.graph.side_inputs import AsSideInput
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.side_inputs.gate import Gate, SideArgument
from headrace.sdk.operators.side_inputs.gate_inputs import Sharding, SideGrouping, Tell, no_key
from headrace.sdk.operators.side_inputs.window_mapping import SideWindows
from headrace.sdk.windows.windowing import Windowing

_shard_of = cast(KeyExtractor, itemgetter(0))


def add_side_input(
    topology: Topology,
    name: str,
    windowing: Windowing,
    streams: Mapping[str, GroupingInputForm],
    takes_back: bool,
    readers: Sequence[str],
) -> None:
    """Add the computations that make a side input of a collection.

    Args:
        topology: The topology to add to.
        name: The name of the side input; its streams have names that begin with it.
        windowing: The windowing of the collection.
        streams: Streams with its elements, and how they carry windows.
        takes_back: Whether some elements may be retractions.
        readers: Labels of the steps that read it.
    """
    begin, panes = f"{name}#begin", f"{name}#panes"
    topology.injector(begin, BoundedInjector([(None, MIN_TIMESTAMP)]))
    grouping = SideGrouping(windowing, streams, begin, panes, takes_back, readers)
    topology.computation(name, grouping, dict.fromkeys([*streams, begin], no_key), [panes])
    topology.inline(f"{name}#tell", Tell(windowing, _messages(name)), [panes], [_messages(name)])


def add_gate(
    topology: Topology, label: str, main: Windowing, sides: Sequence[tuple[str, AsSideInput]], entry: str
) -> str:
    """Add the gate of a step whose main input comes on `entry`; returns the stream of elements that pass it.

    Args:
        topology: The topology to add to.
        label: The label of the step.
        main: The windowing of its main input.
        sides: Its side inputs in the order of its arguments, each with the name under which it was added.
        entry: Stream of elements in the form WINDOWED.
    """
    sharded, ready = f"{label}#sharded", f"{label}#ready"
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in sides))}
    windowings = {name: side.pvalue.windowing for name, side in sides}
    windows = [SideWindows(windowings[name], main) for name in numbers]
    streams = {_messages(name): number for name, number in numbers.items()}
    arguments = [
        SideArgument(f"side input {place} ({side!r})", numbers[name], side.make)
        for place, (name, side) in enumerate(sides, 1)
    ]
    topology.inline(sharded, Sharding(sharded, topology.key_coder), [entry], [sharded])
    gate = Gate(label, windows, streams, arguments, ready)
    topology.computation(f"{label}#gate", gate, dict.fromkeys([sharded, *streams], _shard_of), [ready], aside=streams)
    return ready


def _messages(name: str) -> str:
    """The stream on which a side input sends its views."""
    return f"{name}#messages"
