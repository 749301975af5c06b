"""The model calculator: what is usual for a query at this time of the day (MillWheel paper §2, figure 2).

A day is divided into parts, and for each part the model remembers the rate of searches and how much it varies from day
to day, older days counting exponentially less. It is a few dozen bytes a query, and lasts as long as somebody searches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from struct import Struct
from typing import NamedTuple

from examples.zeitgeist_counts import WindowCount
from headrace.lowlevel import MAX_TIMESTAMP, SECOND, Computation, Context, Record, Timer

PARTS = 12
"""Parts of a day."""
_MEMORY = 0.1
"""How much of the model the newest day makes up: about the last ten days count."""
_PRACTICE = 2
"""Days that a part of the day is learned from before anything is predicted for it."""
_BELIEVABLE = 3.0
"""Deviations; a day further from the usual teaches no more than one just so far, or a spike would become usual."""
_FORGET_DAYS = 2
"""A query that nobody searches for so long is forgotten."""


class Prediction(NamedTuple):
    """What the model says of one part of one day to come. A rate of 0 without end means: forgotten."""

    subject: str
    start: int
    """First second of the part, UTC."""
    rate: float
    """Expected searches a second."""
    error: float
    """Standard error of the rate."""
    forgotten: bool = False


@dataclass(slots=True)
class Usual:
    """Mean and variance of a rate over the days.

    >>> usual = Usual()
    >>> for rate in [10.0, 14.0, 10.0, 14.0]:
    ...     usual.learn(rate, length=20)
    >>> usual.mean, usual.variance, round(usual.error(length=20), 2)
    (12.0, 4.0, 1.0)
    """

    mean: float = 0.0
    variance: float = 0.0
    days: int = 0

    def learn(self, rate: float, length: int) -> None:
        """Take another day's rate in. The first few have equal weights, so that the first is not taken for the truth.

        Args:
            rate: Searches a second.
            length: Seconds that the rate was measured over.
        """
        if self.days >= _PRACTICE:
            most = _BELIEVABLE * self._deviation(length)
            rate = min(max(rate, self.mean - most), self.mean + most)
        self.days += 1
        weight = max(_MEMORY, 1 / self.days)
        change = rate - self.mean
        self.mean += weight * change
        self.variance = (1 - weight) * (self.variance + weight * change * change)

    def error(self, length: int) -> float:
        """Standard error of the mean."""
        return self._deviation(length) / sqrt(min(self.days, 1 / _MEMORY))

    def _deviation(self, length: int) -> float:
        """From day to day; at least that of searches that know nothing of each other."""
        return sqrt(max(self.variance, self.mean / length))


@dataclass(slots=True)
class Model:
    """What is remembered of a query. Persisted: every field."""

    usual: list[Usual] = field(default_factory=lambda: [Usual() for _ in range(PARTS)])
    open: dict[int, int] = field(default_factory=dict)
    """Part since the beginning of time -> searches so far, while it is not complete."""
    silent: int = 0
    """Parts without any search, in a row."""


class ModelCoder:
    """Bytes of a `Model`: 18 for each part of the day, 12 for each open part, and one for the version.

    >>> model = Model(open={108: 7}, silent=1)
    >>> model.usual[3].learn(2.5, length=20)
    >>> data = ModelCoder().encode(model)
    >>> len(data), ModelCoder().decode(data) == model
    (232, True)
    """

    _version = 1
    _head = Struct("<BHB")
    _usual = Struct("<ddH")
    _open = Struct("<qi")

    def encode(self, value: object) -> bytes:
        """All digits of the rates are kept, or results would depend on how often the state is stored."""
        assert isinstance(value, Model)
        return b"".join(
            [
                self._head.pack(self._version, value.silent, len(value.open)),
                *(self._usual.pack(usual.mean, usual.variance, usual.days) for usual in value.usual),
                *(self._open.pack(*item) for item in value.open.items()),
            ]
        )

    def decode(self, data: bytes) -> Model:
        """The model; `ValueError` for bytes of another version."""
        version, silent, _ = self._head.unpack_from(data)
        if version != self._version:
            raise ValueError(f"a model of version {version}; this program reads version {self._version}")
        at = self._head.size + PARTS * self._usual.size
        usual = [Usual(*fields) for fields in self._usual.iter_unpack(data[self._head.size : at])]
        return Model(usual, dict(self._open.iter_unpack(data[at:])), silent)


class ModelCalculator(Computation):
    """Keyed by subject: learns from complete seconds; predicts each part of the day one day ahead.

    Args:
        day: Seconds of a day; a multiple of `PARTS`.
    """

    state_coder = ModelCoder()

    def __init__(self, day: int) -> None:
        self._length = day // PARTS

    def initial_state(self) -> Model:
        """Of a query never heard of."""
        return Model()

    def process_record(self, record: Record, context: Context) -> None:
        """Add a second to its part of the day."""
        model, window = context.state, record.value
        assert isinstance(model, Model) and isinstance(window, WindowCount)
        part = window.second // self._length
        if part not in model.open:
            model.open[part] = 0
            self._wake(part, context)
        model.open[part] += window.count

    def process_timer(self, timer: Timer, context: Context) -> None:
        """A part of the day is complete, perhaps without any search: learn from it, and wait for the next one."""
        model, part = context.state, int(timer.tag)
        assert isinstance(model, Model)
        count = model.open.pop(part, 0)
        model.silent = 0 if count else model.silent + 1
        usual = model.usual[part % PARTS]
        usual.learn(count / self._length, self._length)
        forgotten = model.silent >= _FORGET_DAYS * PARTS
        if forgotten or usual.days >= _PRACTICE:
            start = (part + PARTS) * self._length
            rate, error = usual.mean, usual.error(self._length)
            context.produce(
                "model updates", Prediction(str(context.key), start, rate, error, forgotten), timer.timestamp - 1
            )
        if forgotten:
            context.state = None
        elif context.watermark < MAX_TIMESTAMP:
            self._wake(part + 1, context)

    def _wake(self, part: int, context: Context) -> None:
        context.set_timer(str(part), (part + 1) * self._length * SECOND)
