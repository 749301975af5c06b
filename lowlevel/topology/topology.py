"""Topologies: computations, streams between them, key extractors, injectors, sinks (MillWheel paper §4, figure 3).

A stream is identified by its name. Any computation can subscribe to any stream and produce to any stream. A running
topology is changed by another one that is made of it: with a topology added, or with parts removed (§3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.lowlevel.coders.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.injectors.injector import INJECTOR_HOOKS, BaseInjector, Injector
from headrace.lowlevel.records.record import Batch, KeyExtractor
from headrace.lowlevel.sinks.sink import SINK_HOOKS, SINK_PROTOCOLS, Sink
from headrace.lowlevel.topology.computation import (
    BundleComputation,
    Computation,
    InlineComputation,
    IntervalComputation,
)
from headrace.lowlevel.topology.nodes import Inline, Keyed
from headrace.lowlevel.topology.redelivery import refuse_unrecognised
from headrace.lowlevel.topology.weak_productions import refuse_impossible
from headrace.lowlevel.uncalled_hooks import warn_of_uncalled_hooks

UNSHARED = "1 of 1"
"""The value in `Topology.default_names` for a name that nothing else could have."""


@dataclass(slots=True)
class Topology:
    """Computations, injectors and sinks, joined by streams; build it with the methods named so, then run it.

    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> class Count(Computation):
    ...     def process_record(self, record, context):
    ...         context.state = (context.state or 0) + 1
    ...         context.produce("counts", (context.key, context.state))
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([("britney", 1), ("carly", 2)]))
    >>> topology.computation("count", Count(), inputs={"queries": lambda query: query}, outputs=["counts"])
    >>> topology.validate()
    >>> topology.levels()
    [['count']]
    """

    injectors: dict[str, Injector] = field(default_factory=dict)
    """Stream -> the injector that feeds it."""
    keyed: dict[str, Keyed] = field(default_factory=dict)
    """Keyed computations by name."""
    inlines: dict[str, Inline] = field(default_factory=dict)
    """Inline computations by name."""
    sinks: dict[str, tuple[str, Sink]] = field(default_factory=dict)
    """Sink name -> (stream, sink)."""
    key_coder: KeyCoder = STANDARD_KEYS
    """How keys become bytes."""
    task_begins: Callable[[], object] | None = None
    """Called at the start of each task, in the process and thread of the task, before any other code of the topology;
    None for no call. It travels with the topology to the workers."""
    default_names: dict[str, str] = field(default_factory=dict)
    """Computation or injector whose name is not from the program, so that several could have it -> which one it is:
    `UNSHARED`, or its number among them and what else tells them apart."""

    def injector(self, stream: str, injector: Injector) -> None:
        """Feed a stream from an injector. Raises `TopologyError` if the stream has one or the object is not one."""
        if stream in self.injectors:
            raise TopologyError(f"stream {stream!r} already has an injector; give each injector a stream of its own")
        _check_method(f"the injector of stream {stream!r}", injector, "plan", "BoundedInjector(rows)")
        if missing := [name for name in _INJECTOR_ATTRIBUTES if not hasattr(injector, name)]:
            raise TopologyError(
                f"the injector of stream {stream!r} is {injector!r:.200}, which has no {missing[0]}; "
                "derive its class from BaseInjector, which has defaults"
            )
        warn_of_uncalled_hooks(f"the injector of stream {stream!r}", injector, INJECTOR_HOOKS)
        self.injectors[stream] = injector

    def computation(
        self,
        name: str,
        computation: Computation,
        inputs: Mapping[str, KeyExtractor],
        outputs: Iterable[str] | Mapping[str, type] = (),
        dead_letters: str | None = None,
        aside: Iterable[str] = (),
        watermark_percentile: float | None = None,
        key_encoding: str | None = None,
        at_end: Callable[[Batch], Batch] | None = None,
    ) -> None:
        """Add a keyed computation.

        Args:
            name: Unique among computations.
            computation: The code.
            inputs: Input stream -> key extractor.
            outputs: Streams that it produces to; as a mapping, with the type of each stream's records (paper figure 3).
            dead_letters: Stream for records that a key extractor or `process_record` raises for. Such a record becomes
                a `DeadLetter`, is counted and has no other effect. Without the argument it stops the run.
            aside: Inputs that the low watermark does not wait for, as they only inform about the other inputs.
            watermark_percentile: A value of 99, for instance, makes the input low watermark strip outliers (paper
                §7.2): behind a heuristic injector it waits as long as 99 of 100 recent records needed, without the
                holds in the slowest 1 % of its senders' key intervals. Only here and behind it are records late by it.
            key_encoding: Name of the coder with which the program has encoded the keys; a restart must have the same.
            at_end: Makes another batch of each batch of productions when the low watermark is at the end of time.

        Raises:
            TopologyError: An argument does not fit, or the name is in use.
        """
        self._claim(name)
        _check_arguments(name, computation, inputs, watermark_percentile)
        warn_of_uncalled_hooks(f"computation {name!r}", computation)
        formats = dict(outputs) if isinstance(outputs, Mapping) else {}
        streams = _with_dead_letters(name, computation, frozenset(outputs), dead_letters)
        self.keyed[name] = Keyed(
            *(name, computation, dict(inputs), streams, formats, self.key_coder.of_step(), dead_letters),
            *(_checked_aside(name, aside, inputs), watermark_percentile, key_encoding, at_end),
        )

    def inline(
        self,
        name: str,
        computation: InlineComputation,
        inputs: Iterable[str],
        outputs: Iterable[str] = (),
        step: str | None = None,
    ) -> None:
        """Add a stateless computation that runs where its input is produced.

        `step` is the name for metrics and errors: that of another computation if this one does a part of its work.
        """
        self._claim(name)
        self.inlines[name] = Inline(name, computation, frozenset(inputs), frozenset(outputs), step or name)

    def sink(self, name: str, stream: str, sink: Sink) -> None:
        """Add a sink that gets the records of a stream."""
        if name in self.sinks:
            raise TopologyError(f"two sinks are named {name!r}; sink names must be unique")
        _check_method(f"sink {name!r}", sink, "stage", "CallSink(function)")
        warn_of_uncalled_hooks(f"sink {name!r}", sink, SINK_HOOKS, SINK_PROTOCOLS)
        self.sinks[name] = (stream, sink)

    def _claim(self, name: str) -> None:
        if name in self.keyed or name in self.inlines:
            raise TopologyError(f"two computations are named {name!r}; computation names must be unique")

    def streams(self) -> set[str]:
        """All streams that an injector or computation produces to."""
        produced = set(self.injectors)
        for node in self.nodes():
            produced |= node.outputs
        return produced

    def nodes(self) -> list[Keyed | Inline]:
        """All computations, keyed and inline."""
        return [*self.keyed.values(), *self.inlines.values()]

    def validate(self) -> None:
        """Check the topology as a whole. Raises `TopologyError`, which names the fault and the remedy."""
        produced = self.streams()
        for node in self.nodes():
            for stream in node.inputs:
                self._require(stream, produced, f"computation {node.name!r}")
            if not node.inputs:
                raise TopologyError(f"computation {node.name!r} subscribes to no stream; name at least one input")
        for name, (stream, _) in self.sinks.items():
            self._require(stream, produced, f"sink {name!r}")
        if not self.injectors:
            raise TopologyError("the topology has no injector; add one with topology.injector(stream, injector)")
        self.inline_order()
        refuse_impossible(self)
        refuse_unrecognised(self)

    @staticmethod
    def _require(stream: str, produced: set[str], who: str) -> None:
        if stream not in produced:
            known = ", ".join(sorted(produced)) or "none"
            raise TopologyError(
                f"{who} reads stream {stream!r}, which no injector or computation produces (streams: {known}); "
                "correct the name or declare the stream among a computation's outputs"
            )

    def inline_order(self) -> list[str]:
        """Names of the inline computations, each after those that feed it.

        Raises `TopologyError` for a circle of inline computations: each feeds the next at once, so it would never end.
        """
        for name in self.inlines:
            if name in self._reached_inline(name):
                raise TopologyError(
                    f"inline computation {name!r} feeds itself; a circle needs a keyed computation, "
                    "whose productions are delivered with the next epoch"
                )
        return sorted(self.inlines, key=lambda name: -len(self._reached_inline(name)))

    def _reached_inline(self, name: str) -> set[str]:
        """Inline computations that the output of an inline computation reaches through inline computations alone."""
        reached: set[str] = set()
        frontier = set(self.inlines[name].outputs)
        while frontier:
            stream = frontier.pop()
            for other in self.inlines.values():
                if stream in other.inputs and other.name not in reached:
                    reached.add(other.name)
                    frontier |= other.outputs
        return reached

    def carried(self, stream: str) -> set[str]:
        """The stream, and all streams that inline computations make of it."""
        streams = {stream}
        for name, node in self.inlines.items():
            if stream in node.inputs:
                streams |= node.outputs
                for other in self._reached_inline(name):
                    streams |= self.inlines[other].outputs
        return streams

    def sums_bounded_input(self) -> bool:
        """Whether all input is bounded, and reaches keyed computations and sinks as sums and the like only.

        These are kept until the input ends, however many epochs there are before. What makes sums of records must be
        quick: False if a function of the program is called for each record.
        """
        if not all(isinstance(injector, BaseInjector) and injector.is_bounded for injector in self.injectors.values()):
            return False
        records = set(self.injectors)
        for name in self.inline_order():
            inline = self.inlines[name]
            if not records & inline.inputs:
                continue
            if not inline.computation.is_pure:
                return False
            records |= frozenset() if inline.computation.sends_sums else inline.outputs
        readers = [set(node.inputs) for node in self.keyed.values()]
        return not any(records & inputs for inputs in (*readers, {stream for stream, _ in self.sinks.values()}))

    def id_slacks(self) -> dict[str, int]:
        """Stream -> how long ids of its records are kept, microseconds of event time.

        Has the streams of injectors that may deliver a record again, and those that inline computations make of them.
        """
        slacks: dict[str, int] = {}
        for stream, injector in self.injectors.items():
            if injector.record_ids:
                for carried in self.carried(stream):
                    slacks[carried] = max(slacks.get(carried, 0), injector.id_slack)
        return slacks

    def partial_streams(self, name: str) -> frozenset[str]:
        """Streams of partial results: outputs of the inline computations that do a part of the computation's step."""
        return frozenset().union(*(inline.outputs for inline in self.inlines.values() if inline.step == name))

    def senders(self, aside: bool = True) -> dict[str, set[str]]:
        """Computation -> the computations whose productions reach it, directly or through inline computations.

        Without `aside`, inputs that the low watermark does not wait for are left out.
        """
        reach = {name: set().union(*map(self.carried, node.outputs)) for name, node in self.keyed.items()}
        return self._reaching(reach, aside)

    def sources(self, aside: bool = True) -> dict[str, set[str]]:
        """Computation -> the injectors (by stream) whose records reach it directly or through inline computations."""
        return self._reaching({stream: self.carried(stream) for stream in self.injectors}, aside)

    def _reaching(self, reach: Mapping[str, set[str]], aside: bool) -> dict[str, set[str]]:
        """Computation -> the senders with a stream in `reach` that it reads."""
        inputs = {name: set(node.inputs) - (set() if aside else node.aside) for name, node in self.keyed.items()}
        return {name: {sender for sender, streams in reach.items() if streams & own} for name, own in inputs.items()}

    def circles(self) -> dict[str, frozenset[str]]:
        """Computation -> the computations on a circle with it, including itself; empty if it is on no circle."""
        senders = self.senders()
        above = {name: _closure(name, senders) for name in senders}
        return {
            name: frozenset(other for other in above[name] if name in above[name] and name in above[other])
            for name in senders
        }

    def levels(self) -> list[list[str]]:
        """Names of the keyed computations by depth.

        Productions to a greater depth arrive in the same epoch, all others in the next one.
        """
        order = {name: index for index, name in enumerate(self.keyed)}
        senders, circles = self.senders(), self.circles()
        depth: dict[str, int] = {}

        def depth_of(name: str) -> int:
            if name not in depth:
                forward = [
                    sender
                    for sender in senders[name]
                    if sender != name and not (sender in circles[name] and order[sender] > order[name])
                ]
                depth[name] = 1 + max(map(depth_of, forward), default=0)
            return depth[name]

        for name in self.keyed:
            depth_of(name)
        count = max(depth.values(), default=0)
        return [[name for name in self.keyed if depth[name] == level] for level in range(1, count + 1)]


def _checked_aside(name: str, aside: Iterable[str], inputs: Mapping[str, KeyExtractor]) -> frozenset[str]:
    """The inputs that the low watermark does not wait for. Raises `TopologyError` unless there are others."""
    streams = frozenset(aside)
    if streams and not streams < set(inputs):
        raise TopologyError(
            f"computation {name!r} reads {', '.join(inputs) or 'nothing'} and shall not wait for "
            f"{', '.join(sorted(streams))}; name some of its inputs in `aside`, and not all"
        )
    return streams


def _check_arguments(
    name: str, computation: object, inputs: Mapping[str, KeyExtractor], watermark_percentile: float | None
) -> None:
    """Check the arguments of `Topology.computation`; raises `TopologyError`."""
    if watermark_percentile is not None and not 0 < watermark_percentile < 100:
        raise TopologyError(
            f"computation {name!r} cannot have a watermark percentile of {watermark_percentile!r}; give a number "
            "between 0 and 100, or leave it out to wait for all records"
        )
    if not isinstance(computation, Computation):
        raise TopologyError(f"computation {name!r} is a {type(computation).__name__}; give an instance of Computation")
    for stream, extractor in inputs.items():
        if not callable(extractor):
            raise TopologyError(
                f"computation {name!r} has no key extractor for its input stream {stream!r} (got {extractor!r}); "
                "give a function from a value to its key"
            )


def _with_dead_letters(
    name: str, computation: Computation, outputs: frozenset[str], dead_letters: str | None
) -> frozenset[str]:
    """All outputs; raises `TopologyError` for a computation or stream that cannot have dead letters."""
    if dead_letters is None:
        return outputs
    if isinstance(computation, BundleComputation):
        raise TopologyError(
            f"computation {name!r} takes all records of a key at once, so the record that it fails for is unknown; "
            "leave dead_letters out, or give a Computation with process_record"
        )
    if isinstance(computation, IntervalComputation):
        raise TopologyError(
            f"computation {name!r} takes all records of a bundle at once, so the record that it fails for is unknown; "
            "leave dead_letters out and produce refused records to a stream of their own, or give a Computation with "
            "process_record"
        )
    if dead_letters in outputs:
        raise TopologyError(
            f"stream {dead_letters!r} is an output of computation {name!r}; give its dead letters another stream"
        )
    return outputs | {dead_letters}


def _closure(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    """The nodes that the edges lead to from `name`; includes `name` only if a circle leads back to it."""
    reached: set[str] = set()
    frontier = list(edges[name])
    while frontier:
        other = frontier.pop()
        if other not in reached:
            reached.add(other)
            frontier.extend(edges[other])
    return reached


_INJECTOR_ATTRIBUTES = ("max_delay", "record_ids", "id_slack", "position_kind")


def _check_method(role: str, value: object, method: str, example: str) -> None:
    if isinstance(value, type) or not hasattr(value, method):
        raise TopologyError(f"{role} is {value!r:.200}, which has no method {method}; give an object such as {example}")


def joined_topology(topology: Topology, more: Topology) -> Topology:
    """A new topology with the nodes of both; each may read streams of the other.

    Raises `TopologyError` if both have a computation, injector or sink of the same name.

    >>> from headrace.lowlevel.topology.computation import Computation
    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> topology, more = Topology(), Topology()
    >>> topology.injector("queries", BoundedInjector([]))
    >>> more.computation("count", Computation(), {"queries": str})
    >>> list(joined_topology(topology, more).keyed), list(topology.keyed)
    (['count'], [])
    """
    for kind, own, others in (
        ("an injector of stream", topology.injectors, more.injectors),
        ("a computation", {**topology.keyed, **topology.inlines}, {**more.keyed, **more.inlines}),
        ("a sink", topology.sinks, more.sinks),
    ):
        if common := own.keys() & others.keys():
            raise TopologyError(f"there already is {kind} {min(common)!r}; give the new one a name of its own")
    return replace(
        topology,
        injectors=topology.injectors | more.injectors,
        keyed=topology.keyed | more.keyed,
        inlines=topology.inlines | more.inlines,
        sinks=topology.sinks | more.sinks,
        default_names=topology.default_names | more.default_names,
    )


def reduced_topology(topology: Topology, names: Iterable[str]) -> Topology:
    """A new topology without the computations, sinks and injectors (by stream) of these names.

    Raises `TopologyError` for an unknown name.

    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([]))
    >>> list(reduced_topology(topology, ["queries"]).injectors)
    []
    """
    removed = set(names)
    known = [*topology.injectors, *topology.keyed, *topology.inlines, *topology.sinks]
    if unknown := removed - set(known):
        raise TopologyError(f"nothing is named {min(unknown)!r}; there are {', '.join(sorted(set(known)))}")
    return replace(
        topology,
        injectors={name: injector for name, injector in topology.injectors.items() if name not in removed},
        keyed={name: node for name, node in topology.keyed.items() if name not in removed},
        inlines={name: node for name, node in topology.inlines.items() if name not in removed},
        sinks={name: sink for name, sink in topology.sinks.items() if name not in removed},
    )
