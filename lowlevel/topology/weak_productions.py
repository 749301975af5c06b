"""Weak productions: productions that leave before the commit of their epoch (MillWheel paper §6.1.3).

For a computation with `strong_productions = False`, the task that runs it releases its productions to sinks. Those to
computations of a greater depth may mix several attempts, as long as each key gets as many records. Productions to the
same or a smaller depth, and outputs of strong inline computations, stay strong.
"""

from __future__ import annotations

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.sinks.sink import ReleasingSink, Sink
from headrace.lowlevel.topology.nodes import Inline, Keyed, Wiring


def weak_streams(topology: Wiring) -> frozenset[str]:
    """Streams whose producers are all weak."""
    weak, strong = _producers(topology)
    return frozenset(weak.keys() - strong.keys())


def releasing_sinks(topology: Wiring) -> dict[str, ReleasingSink]:
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


def refuse_impossible(topology: Wiring) -> None:
    """Raise `TopologyError` for a sink that gets weak productions but cannot take them."""
    weak, strong = _producers(topology)
    for name, (stream, sink) in topology.sinks.items():
        if stream in weak:
            _check_sink(name, stream, sink, weak[stream], strong.get(stream))


def _check_sink(name: str, stream: str, sink: Sink, weak: str, strong: str | None) -> None:
    if strong is not None:
        raise TopologyError(
            f"sink {name!r} reads stream {stream!r}, to which {weak} produces weakly and {strong} strongly, so it "
            "is unknown which rows wait for the commit; give each a stream of its own, or make both weak or both strong"
        )
    if not isinstance(sink, ReleasingSink):
        raise TopologyError(
            f"sink {name!r} is a {type(sink).__name__}, which delivers committed rows, but {weak} has weak "
            "productions, which leave before the commit; give a sink with release(batch, epoch, interval, token), "
            "such as SendSink, or make the productions strong (strong_productions = True)"
        )


def _producers(topology: Wiring) -> tuple[dict[str, str], dict[str, str]]:
    """Stream -> a weak producer, and stream -> a strong producer, as error messages name them."""
    weak: dict[str, str] = {}
    strong = {stream: f"source {stream!r}" for stream in topology.injectors}

    def note(node: Keyed | Inline, weakly: frozenset[str]) -> None:
        for stream in node.outputs:
            (weak if stream in weakly else strong)[stream] = f"step {node.step!r}"

    for keyed in topology.keyed.values():
        note(keyed, keyed.computation.weak_streams(keyed.outputs))
    for inline in map(topology.inlines.__getitem__, topology.inline_order()):
        weak_inputs = inline.inputs & (weak.keys() - strong.keys())
        note(inline, inline.computation.weak_streams(inline.outputs, weak_inputs))
    return weak, strong
