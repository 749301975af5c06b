"""The input of all examples here: the ten scores of Streaming 102, and the ways in which they reach a pipeline.

The values are the article's. Its text says what comes of them and when; the instants themselves are only in its
animations, so these are ours, chosen so that every number in the text comes out. `happened` is event time, `arrives`
processing time, both in seconds since midnight: `at("12:00")` is 43,200.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import headrace as beam
from headrace.testing.test_stream import TestStream
from headrace.transforms.window import TimestampedValue

MINUTE = 60
DAY = 24 * 60 * MINUTE
"""In seconds, as everywhere in Beam's interface."""


def at(time: str) -> int:
    """Seconds since midnight.

    >>> at("12:02"), at("12:02:30")
    (43320, 43350)
    """
    hours, minutes, seconds = [*map(int, time.split(":")), 0][:3]
    return (hours * 60 + minutes) * MINUTE + seconds


def clock(seconds: int) -> str:
    """The time of day.

    >>> clock(43_350)
    '12:02:30'
    """
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@dataclass(frozen=True, slots=True)
class Score:
    """Points of the one team there is: when they were won, and when the pipeline hears of them."""

    points: int
    happened: int
    arrives: int
    foreseen: bool = True
    """Whether the heuristic watermark knows that it is on its way."""


# What fixes the event times:
# - In two-minute windows they add up to 14, 22, 3 and 12 (figures 4 to 13): 5 and 9; 7, 3, 4 and 8; 3; 8, 3 and 1.
# - The 7 happened first in its window. Its first early pane, at 12:06, is three and a half minutes later (figure 7).
# - With gaps of a minute (figure 17) 5 and 7 are apart; 3, 4 and 3 are together (10) and apart from the 7; the 8 joins
#   these two (25); the 9 joins that and the 5 (39); the last three are together (12) and apart from all before.
# What fixes the order of arrival:
# - In each two minutes 12, 21 and 18 arrive (figures 14, 15): 5, 7 before 12:06; 3, 4, 3, 8, 3 before 12:08; 8, 9, 1.
# - The 5 comes first and the 7 next, just before 12:06; then 3, 4, 3 before 12:07 and the 8 after it (figure 17):
#   so the panes of the second window are 7, 14 and 22 (figure 7, table 1).
# - The 8 is the last of the second window. When it has come, at 12:07:30, the heuristic watermark passes 12:04, five
#   minutes after the 7 happened (figure 6).
# - The perfect watermark must wait for the 9, and so passes 12:04 at 12:09:20, nearly seven minutes after the 7
#   happened (figure 6).
# In the second order only the 7 comes before 12:06, and only a 3 and the 1 after 12:08: 7, 40, 4. The article has
# 7, 36, 4 (figures 14, 15), but that is 47, and its ten values are 51.
_TABLE = (
    # points, happened, arrives, arrives in the second order
    (5, "12:00:45", "12:05:45", "12:06:10"),
    (9, "12:01:40", "12:09:20", "12:07:40"),
    (7, "12:02:30", "12:05:55", "12:05:45"),
    (8, "12:02:50", "12:07:30", "12:07:10"),
    (3, "12:03:40", "12:06:10", "12:06:50"),
    (4, "12:03:50", "12:06:30", "12:06:30"),
    (3, "12:04:40", "12:06:50", "12:07:30"),
    (8, "12:06:40", "12:08:20", "12:07:50"),
    (3, "12:07:10", "12:07:40", "12:08:20"),
    (1, "12:07:30", "12:09:40", "12:09:20"),
)
# The heuristic watermark does not know of the 9 (figure 6).
SCORES = tuple(Score(points, at(when), at(first), points != 9) for points, when, first, _ in _TABLE)
"""In the article's order of arrival."""
SECOND_ORDER = tuple(Score(points, at(when), at(second), points != 9) for points, when, _, second in _TABLE)
"""The same scores, heard of in another order."""
# Of figure 8 alone: it happened in the first window and comes while the watermark, which waits for the 8, is past its
# end by less than a minute; when the 9 comes it is past by more.
SIX = Score(6, at("12:01:20"), at("12:07:10"), foreseen=False)

MINUTES = tuple(at(f"12:{minute:02}") for minute in range(6, 11))
INSTANTS = sorted({*MINUTES, *(score.arrives for score in (*SCORES, *SECOND_ORDER, SIX))})
"""The processing times at which something happens: scores arrive, or a minute is over."""

Watermark: TypeAlias = Callable[[int, Sequence[Score]], int]
"""Of the processing time and the scores that are still to come: the event time up to which everything is there."""


def perfect(now: int, to_come: Sequence[Score]) -> int:
    """The watermark of one who knows all that is to come: nothing is ever late.

    >>> perfect(at("12:06"), [Score(8, at("12:02:50"), at("12:07:30"))]) == at("12:02:50")
    True
    """
    return min([now, *(score.happened for score in to_come)])


def heuristic(now: int, to_come: Sequence[Score]) -> int:
    """The watermark of one who does not know of some: those come late."""
    return perfect(now, [score for score in to_come if score.foreseen])


def pair(score: Score) -> tuple[str, int]:
    """Team and points."""
    return "red", score.points


def line(score: Score) -> str:
    """Team and points as they would stand in a log; for those examples that parse it."""
    return f"red {score.points}"


@dataclass(frozen=True, slots=True)
class Input:
    """Scores, and how they reach a pipeline."""

    name: str
    scores: Sequence[Score]
    watermark: Watermark | None
    """None: they are all there from the beginning."""
    form: Callable[[Score], object] = pair

    def source(self) -> beam.PTransform[beam.pvalue.PBegin, beam.PCollection[object]]:
        """What brings them in."""
        return self._stream(self.watermark) if self.watermark else beam.Create(self._elements(self.scores))

    def _stream(self, watermark: Watermark) -> TestStream:
        """Each instant is three events, and so three epochs: the clock moves, scores arrive, the watermark moves."""
        stream, before, complete = TestStream(), 0, 0
        for now in INSTANTS:
            stream.advance_processing_time(now - before)
            stream.add_elements(self._elements([score for score in self.scores if score.arrives == now]))
            reached = watermark(now, [score for score in self.scores if score.arrives > now])
            if reached > complete:
                stream.advance_watermark_to(reached)
            else:
                stream.add_elements([])
            before, complete = now, reached
        return stream

    def _elements(self, scores: Sequence[Score]) -> list[TimestampedValue[object]]:
        return [TimestampedValue(self.form(score), score.happened) for score in scores]


def instant(epoch: int) -> int:
    """The processing time of an epoch of a stream.

    >>> instant(4) == INSTANTS[1]
    True
    """
    return INSTANTS[(epoch - 1) // 3]


BOUNDED = Input("bounded input", SCORES, None)
PERFECT = Input("perfect watermark", SCORES, perfect)
HEURISTIC = Input("heuristic watermark", SCORES, heuristic)
WITH_SIX = Input("heuristic watermark, and a 6 that comes late", (*SCORES, SIX), heuristic)
FIRST = Input("first order of arrival", SCORES, heuristic)
SECOND = Input("second order of arrival", SECOND_ORDER, heuristic)


def bounded(given: Input) -> Input:
    """The same scores with the same timestamps, all there from the beginning."""
    return replace(given, name=f"bounded input ({given.name})", watermark=None)


def of_ingress(given: Input) -> Input:
    """The same scores, but each happens when it arrives: then the perfect watermark is the clock."""
    scores = [replace(score, happened=score.arrives) for score in given.scores]
    return replace(given, scores=scores, watermark=perfect)


def of_lines(given: Input) -> Input:
    """The same scores as lines of a log."""
    return replace(given, form=line)
