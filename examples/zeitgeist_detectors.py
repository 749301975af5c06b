"""Spike detector and dip detector: is a query consistently far from its model? (MillWheel paper §2, figures 3 and 9)

One second says little: a query with two searches a second has none in every seventh. So each second adds to or takes
from the evidence, by how much better a spike (or dip) explains its count than the usual does; enough evidence in a row
is an anomaly. That is Page's cumulative sum for Poisson counts. Evidence never falls below nothing, so a query that was
quiet for a week does not need a week to be found spiking.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

from examples.zeitgeist_counts import WindowCount
from examples.zeitgeist_model import PARTS, Prediction
from headrace.lowlevel import MAX_TIMESTAMP, SECOND, Computation, Context, Record, Timer

THRESHOLD = 14.0
"""Evidence that makes an anomaly, as a natural logarithm: e**14 times more likely than the usual."""
_MOST = 1.5 * THRESHOLD
"""Evidence is not collected without bounds, or the end of a long anomaly would go unnoticed."""
SPIKE, DIP = 3.0, 1 / 3
"""Times the usual rate that a spike and a dip are held to be."""
_DOUBT = 2.0
"""Standard errors that the model is given the benefit of."""


class Anomaly(NamedTuple):
    """A query that is spiking or dipping."""

    kind: str
    """'spike' or 'dip'."""
    subject: str
    since: int
    """When the evidence began, seconds UTC."""
    second: int
    """When there was enough of it, seconds UTC."""
    expected: float
    """Searches that the model expected from `since` to the end of `second`."""
    actual: int
    """Searches that there were."""


@dataclass(slots=True)
class Evidence:
    """For one kind of anomaly of one subject."""

    score: float = 0.0
    since: int = 0
    expected: float = 0.0
    actual: int = 0
    reported: bool = False

    def weigh(self, second: int, actual: int, expected: float, factor: float) -> bool:
        """Take a second in; whether there is now enough evidence for the first time.

        >>> evidence = Evidence()
        >>> [evidence.weigh(second, 12, 4.0, SPIKE) for second in range(5)]
        [False, False, True, False, False]
        """
        score = min(self.score + actual * log(factor) - expected * (factor - 1), _MOST)
        if score <= 0:
            self.score, self.reported = 0.0, False
            return False
        if self.score == 0:
            self.since, self.expected, self.actual = second, 0.0, 0
        self.score = score
        self.expected += expected
        self.actual += actual
        enough = score >= THRESHOLD and not self.reported
        self.reported |= enough
        return enough


@dataclass(slots=True)
class Watch:
    """What a detector remembers of a subject. Persisted: every field."""

    model: dict[int, list[tuple[int, float, float]]] = field(default_factory=dict)
    """Part of the day -> start, rate and error of its predictions: the one in force, and those for days to come."""
    counts: dict[int, int] = field(default_factory=dict)
    """Seconds not judged yet."""
    next: int | None = None
    """The next second to judge."""
    evidence: Evidence = field(default_factory=Evidence)


class Detector(Computation):
    """What both detectors share: they read window counts and model updates, and produce anomalies.

    Args:
        kind: 'spike' or 'dip'.
        factor: Times the usual rate that such an anomaly is held to be.
        day: Seconds of a day.
    """

    def __init__(self, kind: str, factor: float, day: int) -> None:
        self._kind = kind
        self._factor = factor
        self._length = day // PARTS

    def initial_state(self) -> Watch:
        """Of a subject that nothing is known of."""
        return Watch()

    def process_record(self, record: Record, context: Context) -> None:
        """Keep what comes, in whatever order, until it is judged."""
        watch = context.state
        assert isinstance(watch, Watch)
        if isinstance(record.value, Prediction):
            self._update(record.value, watch, context)
        else:
            assert isinstance(record.value, WindowCount)
            watch.counts[record.value.second] = record.value.count
            self._counted(record.value, watch, context)

    def _counted(self, window: WindowCount, watch: Watch, context: Context) -> None:
        """Called for each window count."""

    def _update(self, prediction: Prediction, watch: Watch, context: Context) -> None:
        if prediction.forgotten:
            self._forget(context)
            return
        part = prediction.start // self._length % PARTS
        new = (prediction.start, prediction.rate, prediction.error)
        watch.model[part] = sorted([*watch.model.get(part, []), new])

    def _forget(self, context: Context) -> None:
        context.state = None

    def _judge(self, second: int, watch: Watch, context: Context) -> None:
        """Hold a complete second against the model, in order of seconds."""
        actual = watch.counts.pop(second, 0)
        known = watch.model.get(second // self._length % PARTS, [])
        while len(known) > 1 and known[1][0] <= second:
            del known[0]
        if not known or known[0][0] > second:
            return
        _, rate, error = known[0]
        expected = max(rate + (_DOUBT if self._factor > 1 else -_DOUBT) * error, 0.0)
        evidence = watch.evidence
        if evidence.weigh(second, actual, expected, self._factor):
            found = Anomaly(self._kind, str(context.key), evidence.since, second, evidence.expected, evidence.actual)
            context.produce("anomalies", found, (second + 1) * SECOND - 1)


class SpikeDetector(Detector):
    """Finds spikes, without timers: what has arrived is evident, and more of it would only be more evident (§4.6)."""

    def __init__(self, day: int) -> None:
        super().__init__("spike", SPIKE, day)

    def finish_key(self, context: Context) -> None:
        """Judge the seconds that came with this bundle, and those without any search between them."""
        watch = context.state
        if not isinstance(watch, Watch) or not watch.counts:
            return
        first = min(watch.counts) if watch.next is None else watch.next
        watch.next = max(watch.counts) + 1
        for second in range(first, watch.next):
            self._judge(second, watch, context)


class DipDetector(Detector):
    """Finds dips, through low watermark timers: only the watermark tells what did not happen from what is delayed."""

    def __init__(self, day: int) -> None:
        super().__init__("dip", DIP, day)

    def _counted(self, window: WindowCount, watch: Watch, context: Context) -> None:
        """The first second of a subject starts the chain of timers, which needs no further records."""
        if watch.next is None:
            watch.next = window.second
            context.set_timer("complete", (window.second + 1) * SECOND)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Judge every second that the low watermark has passed, and wait for the next one."""
        watch = context.state
        assert isinstance(watch, Watch)
        if context.watermark == MAX_TIMESTAMP:  # nobody searches after the end of time; that is no dip
            return
        assert watch.next is not None
        complete = context.watermark // SECOND
        for second in range(watch.next, complete):
            self._judge(second, watch, context)
        watch.next = complete
        context.set_timer("complete", (complete + 1) * SECOND)

    def _forget(self, context: Context) -> None:
        super()._forget(context)
        context.delete_timer("complete")
