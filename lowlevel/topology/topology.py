"""Topologies: computations, streams between them, key extractors, injectors, sinks (MillWheel paper §4, figure 3).

Streams are known by name alone; any computation subscribes to any stream and produces to any stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.lowlevel.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.computation import BundleComputation, Computation, InlineComputation
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.injector import Injector
from headrace.lowlevel.intervalcomputation import IntervalComputation
from headrace.lowlevel.record import KeyExtractor
from headrace.lowlevel.redelivery import refuse_unrecognised
from headrace.lowlevel.sink import Sink
from headrace.lowlevel.weak import refuse_impossible


@dataclass(frozen=True, slots=True)
class Keyed:
    """A computation's place in the topology."""

    name: str
    computation: Computation
    inputs: Mapping[str, KeyExtractor]
    """Input stream -> key extractor."""
    outputs: frozenset[str]
    formats: Mapping[str, type] = field(default_factory=dict)
    """Output stream -> type that its records must have; streams without one take anything."""
    key_coder: KeyCoder = STANDARD_KEYS
    dead_letters: str | None = None
    """Stream for records that the computation raises for; None if they stop the run."""
    aside: frozenset[str] = frozenset()
    """Input streams whose senders do not hold its low watermark: what they bring is never late, nor waited for, and
    counted as `aside`."""
    watermark_percentile: float | None = None
    """The share of recent records, in per cent, that its input low watermark waits for; None for all."""

    @property
    def step(self) -> str:
        """The name that metrics and errors of its code go under."""
        return self.name


@dataclass(frozen=True, slots=True)
class Inline:
    """An inline computation's place in the topology."""

    name: str
    computation: InlineComputation
    inputs: frozenset[str]
    outputs: frozenset[str]
    step: str
    """The name that metrics and errors of its code go under."""


@dataclass(slots=True)
class Topology:
    """Build it with `injector`, `computation`, `inline` and `sink`, then give it to a runner.

    >>> from headrace.lowlevel.injector import BoundedInjector
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
    inlines: dict[str, Inline] = field(default_factory=dict)
    sinks: dict[str, tuple[str, Sink]] = field(default_factory=dict)
    """Sink name -> (stream, sink)."""
    key_coder: KeyCoder = STANDARD_KEYS
    """How keys become bytes."""

    def injector(self, stream: str, injector: Injector) -> None:
        """Feed a stream from outside."""
        if stream in self.injectors:
            raise TopologyError(f"stream {stream!r} already has an injector; give each injector a stream of its own")
        _check_able(f"the injector of stream {stream!r}", injector, "plan", "BoundedInjector(rows)")
        if missing := [name for name in _OF_INJECTORS if not hasattr(injector, name)]:
            raise TopologyError(
                f"the injector of stream {stream!r} is {injector!r:.200}, which has no {missing[0]}; "
                "derive its class from BaseInjector, which has what most need"
            )
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
    ) -> None:
        """Add a computation with its input streams, the key extractor for each, and the streams it produces to.

        Outputs given as a mapping state each stream's record format, a type: to produce anything else is an error
        (paper figure 3). With `dead_letters` a record that the key extractor or `process_record` raises for goes to the
        stream of that name as a `DeadLetter`, counted, and leaves nothing else behind; other records, and timers, are
        processed as if it had not come. Without, it stops the run.

        The low watermark does not wait for the inputs named in `aside`: they tell the computation something about its
        other input.

        With a `watermark_percentile` of 99, say, its input low watermark strips outliers (paper §7.2): behind a
        heuristic injector it waits only for as long as 99 of 100 recent records needed, and of the holds of its senders
        it ignores those of the slowest 1 of 100 key intervals. What comes behind it is late for this computation, and
        those after it. Other consumers of the same streams keep the strict one. Raises `TopologyError`.
        """
        self._claim(name)
        _check_given(name, computation, inputs, watermark_percentile)
        formats = dict(outputs) if isinstance(outputs, Mapping) else {}
        streams = frozenset(outputs)
        if dead_letters is not None:
            _check_dead_letters(name, computation, streams, dead_letters)
            streams |= {dead_letters}
        besides = _checked_aside(name, aside, inputs)
        self.keyed[name] = Keyed(
            *(name, computation, dict(inputs), streams, formats, self.key_coder, dead_letters, besides),
            watermark_percentile,
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

        Where it does a part of what another one does, `step` names that one for metrics and errors.
        """
        self._claim(name)
        self.inlines[name] = Inline(name, computation, frozenset(inputs), frozenset(outputs), step or name)

    def sink(self, name: str, stream: str, sink: Sink) -> None:
        """Let a stream leave the topology."""
        if name in self.sinks:
            raise TopologyError(f"two sinks are named {name!r}; sink names must be unique")
        _check_able(f"sink {name!r}", sink, "stage", "CallSink(function)")
        self.sinks[name] = (stream, sink)

    def _claim(self, name: str) -> None:
        if name in self.keyed or name in self.inlines:
            raise TopologyError(f"two computations are named {name!r}; computation names must be unique")

    def streams(self) -> set[str]:
        """Every stream that something can produce to."""
        produced = set(self.injectors)
        for place in self.places():
            produced |= place.outputs
        return produced

    def places(self) -> list[Keyed | Inline]:
        """Every computation, inline ones too."""
        return [*self.keyed.values(), *self.inlines.values()]

    def validate(self) -> None:
        """Refuse a topology that cannot run; raises `TopologyError` naming what is wrong and how to mend it."""
        produced = self.streams()
        for place in self.places():
            for stream in place.inputs:
                self._require(stream, produced, f"computation {place.name!r}")
            if not place.inputs:
                raise TopologyError(f"computation {place.name!r} subscribes to no stream; name at least one input")
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
        """Inline computations, each after those that feed it.

        Raises `TopologyError` for a circle: inline computations run at once where they are fed, so it would never end.
        """
        for name in self.inlines:
            if name in self._reached_inline(name):
                raise TopologyError(
                    f"inline computation {name!r} feeds itself; a circle needs a keyed computation, "
                    "whose productions are delivered with the next epoch"
                )
        return sorted(self.inlines, key=lambda name: -len(self._reached_inline(name)))

    def _reached_inline(self, name: str) -> set[str]:
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
        """The stream and every stream that inline computations make of it."""
        streams = {stream}
        for name, place in self.inlines.items():
            if stream in place.inputs:
                streams |= place.outputs
                for other in self._reached_inline(name):
                    streams |= self.inlines[other].outputs
        return streams

    def id_slacks(self) -> dict[str, int]:
        """Stream -> how long ids of its records are kept, microseconds; those that injectors may deliver again.

        What inline computations make of such a record has ids that follow from its own.
        """
        slacks: dict[str, int] = {}
        for stream, injector in self.injectors.items():
            if injector.record_ids:
                for carried in self.carried(stream):
                    slacks[carried] = max(slacks.get(carried, 0), injector.id_slack)
        return slacks

    def partial_streams(self, name: str) -> frozenset[str]:
        """Streams into a computation whose records each stand for several, which a part of its step has seen."""
        return frozenset().union(*(inline.outputs for inline in self.inlines.values() if inline.step == name))

    def senders(self, aside: bool = True) -> dict[str, set[str]]:
        """Computation -> the computations whose productions reach it, directly or through inline computations.

        Without `aside`: only those that hold its low watermark.
        """
        reach = {name: set().union(*map(self.carried, place.outputs)) for name, place in self.keyed.items()}
        return self._reaching(reach, aside)

    def sources(self, aside: bool = True) -> dict[str, set[str]]:
        """Computation -> the injectors (by stream) whose records reach it without another computation between."""
        return self._reaching({stream: self.carried(stream) for stream in self.injectors}, aside)

    def _reaching(self, reach: Mapping[str, set[str]], aside: bool) -> dict[str, set[str]]:
        """Computation -> those of whose streams it reads one."""
        wanted = {name: set(place.inputs) - (set() if aside else place.aside) for name, place in self.keyed.items()}
        return {
            name: {sender for sender, streams in reach.items() if streams & inputs} for name, inputs in wanted.items()
        }

    def circles(self) -> dict[str, frozenset[str]]:
        """Computation -> the computations on a circle with it, itself among them; empty if it is on none."""
        senders = self.senders()
        above = {name: _closure(name, senders) for name in senders}
        return {
            name: frozenset(other for other in above[name] if name in above[name] and name in above[other])
            for name in senders
        }

    def levels(self) -> list[list[str]]:
        """Computations by depth.

        What a computation sends to a greater depth arrives in the same epoch, the rest with the next one.
        """
        order = {name: place for place, name in enumerate(self.keyed)}
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
    """The inputs that do not hold the watermark; there must be others."""
    besides = frozenset(aside)
    if besides and not besides < set(inputs):
        raise TopologyError(
            f"computation {name!r} reads {', '.join(inputs) or 'nothing'} and shall not wait for "
            f"{', '.join(sorted(besides))}; name some of its inputs in `aside`, and not all"
        )
    return besides


def _check_given(
    name: str, computation: object, inputs: Mapping[str, KeyExtractor], watermark_percentile: float | None
) -> None:
    """Refuse what cannot be a computation's; raises `TopologyError`."""
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


def _check_dead_letters(name: str, computation: Computation, outputs: frozenset[str], dead_letters: str) -> None:
    """Refuse a computation that cannot have them, or not on this stream."""
    if isinstance(computation, BundleComputation):
        raise TopologyError(
            f"computation {name!r} takes all records of a key at once, so it cannot be told which of them it "
            "fails for; leave dead_letters out, or let it be a Computation with process_record"
        )
    if isinstance(computation, IntervalComputation):
        raise TopologyError(
            f"computation {name!r} takes all records of a bundle at once, so it cannot be told which of them it "
            "fails for; leave dead_letters out and produce what is refused to a stream of its own, or let it be a "
            "Computation with process_record"
        )
    if dead_letters in outputs:
        raise TopologyError(
            f"stream {dead_letters!r} is an output of computation {name!r}; give its dead letters another"
        )


def _closure(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    """Everything that can be reached along the edges, the start only if a circle leads back to it."""
    reached: set[str] = set()
    frontier = list(edges[name])
    while frontier:
        other = frontier.pop()
        if other not in reached:
            reached.add(other)
            frontier.extend(edges[other])
    return reached


_OF_INJECTORS = ("max_delay", "record_ids", "id_slack", "position_kind")


def _check_able(what: str, given: object, method: str, example: str) -> None:
    if isinstance(given, type) or not hasattr(given, method):
        raise TopologyError(f"{what} is {given!r:.200}, which has no method {method}; give an object such as {example}")
