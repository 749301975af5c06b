"""Weak productions: which of a topology's productions leave before the commit (MillWheel paper §6.1.3).

What a computation with `strong_productions = False` sends to sinks is released by the task that made it; what it sends
to computations of a greater depth is not checked for a mixture of attempts, as long as the same keys get as much. What
goes round to the same or a smaller depth, or on through a strong inline computation, is as strong as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.sink import ReleasingSink, Sink

if TYPE_CHECKING:
    from headrace.lowlevel.topology import Inline, Keyed, Topology


def weak_streams(topology: Topology) -> frozenset[str]:
    """Streams all of whose producers are weak."""
    weak, strong = _producers(topology)
    return frozenset(weak.keys() - strong.keys())


def releasing_sinks(topology: Topology) -> dict[str, ReleasingSink]:
    """The sinks that get their rows before the commit, by name.

    >>> from headrace.lowlevel import BoundedInjector, InlineComputation, SendSink, Topology
    >>> class Filter(InlineComputation):
    ...     strong_productions = False
    >>> topology = Topology()
    >>> topology.injector("all", BoundedInjector([]))
    >>> topology.inline("filter", Filter(), ["all"], ["some"])
    >>> topology.sink("alert", "some", SendSink(print))
    >>> topology.sink("archive", "all", SendSink(print))
    >>> list(releasing_sinks(topology))
    ['alert']
    """
    streams = weak_streams(topology)
    return {
        name: sink
        for name, (stream, sink) in topology.sinks.items()
        if stream in streams and isinstance(sink, ReleasingSink)
    }


def refuse_impossible(topology: Topology) -> None:
    """Raise `TopologyError` for a sink that gets weak productions and cannot take them."""
    weak, strong = _producers(topology)
    for name, (stream, sink) in topology.sinks.items():
        if stream in weak:
            _check_sink(name, stream, sink, weak[stream], strong.get(stream))


def _check_sink(name: str, stream: str, sink: Sink, weak: str, strong: str | None) -> None:
    if strong is not None:
        raise TopologyError(
            f"sink {name!r} reads stream {stream!r}, to which {weak} produces weakly and {strong} strongly, so it "
            "cannot be told what waits for the commit; give them streams of their own, or let both be the same"
        )
    if not isinstance(sink, ReleasingSink):
        raise TopologyError(
            f"sink {name!r} is a {type(sink).__name__}, which delivers what is committed, but {weak} has weak "
            "productions, which leave before the commit; let it be a sink that has release(batch, epoch, interval, "
            "token), as SendSink, or let the productions be strong (strong_productions = True)"
        )


def _producers(topology: Topology) -> tuple[dict[str, str], dict[str, str]]:
    """Stream -> a weak producer, and stream -> a strong one, as error messages name them."""
    weak: dict[str, str] = {}
    strong = {stream: f"injector {stream!r}" for stream in topology.injectors}

    def note(place: Keyed | Inline, weakly: frozenset[str]) -> None:
        for stream in place.outputs:
            (weak if stream in weakly else strong)[stream] = f"step {place.step!r}"

    for keyed in topology.keyed.values():
        note(keyed, keyed.computation.weak_streams(keyed.outputs))
    for inline in map(topology.inlines.__getitem__, topology.inline_order()):
        came = inline.inputs & (weak.keys() - strong.keys())
        note(inline, inline.computation.weak_streams(inline.outputs, came))
    return weak, strong
