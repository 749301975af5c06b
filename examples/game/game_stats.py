"""An answer that needs another one: scores without robots, and how long people play.

Who scores far more than the mean of all is taken for a robot, in each half hour anew; the set of them is a side input
of the step that leaves them out. How long people play are their sessions: windows that end when somebody stops for
five minutes.

    python -m examples.game.game_stats
"""

from __future__ import annotations

from collections.abc import Iterable

import headrace as beam
from examples.game.plays import MINUTE, Play, stream
from headrace.pvalue import AsIter, AsSingleton
from headrace.transforms.window import FixedWindows, IntervalWindow, Sessions, TimestampCombiner

_TIMES_THE_MEAN = 2.5


def robots(plays: beam.PCollection[Play]) -> beam.PCollection[str]:
    """Users who score far more than others, in windows of half an hour."""
    sums = plays | "User sums" >> beam.Map(lambda play: (play.user, play.points)) | beam.CombinePerKey(sum)
    mean = sums | beam.Values() | beam.CombineGlobally(beam.combiners.MeanCombineFn()).without_defaults()
    suspects = sums | "Far above" >> beam.Filter(
        lambda score, mean: score[1] > _TIMES_THE_MEAN * mean, AsSingleton(mean)
    )
    return suspects | beam.Keys()


def scores(plays: beam.PCollection[Play]) -> beam.PCollection[tuple[str, int]]:
    """(team, points) of people, in windows of half an hour."""
    windowed = plays | "Half hours" >> beam.WindowInto(FixedWindows(30 * MINUTE))
    people = windowed | "People" >> beam.Filter(_is_person, AsIter(robots(windowed)))
    return people | "By team" >> beam.Map(lambda play: (play.team, play.points)) | "Sum" >> beam.CombinePerKey(sum)


def _is_person(play: Play, robots: Iterable[str]) -> bool:
    return play.user not in robots


def durations(plays: beam.PCollection[Play]) -> beam.PCollection[tuple[str, float]]:
    """(user, minutes) of each session."""
    return (
        plays
        | "Sessions" >> beam.WindowInto(Sessions(5 * MINUTE), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EOW)
        | "Users" >> beam.Map(lambda play: (play.user, play.points))
        | "Played" >> beam.CombinePerKey(sum)
        | "Minutes" >> beam.Map(_minutes)
    )


def _minutes(played: tuple[str, int], window: IntervalWindow = beam.DoFn.WindowParam) -> tuple[str, float]:
    length = window.end.micros - window.start.micros - 5 * MINUTE * 1_000_000
    return played[0], length / 60_000_000


def show(score: tuple[str, int], window: IntervalWindow = beam.DoFn.WindowParam) -> None:
    """A line for each team and half hour."""
    print(f"from minute {window.start.micros // 60_000_000:3}  {score[0]:6} {score[1]:5}")


def main() -> None:
    """Print the scores of people."""
    with beam.Pipeline() as pipeline:
        _ = scores(pipeline | stream()) | beam.Map(show)


if __name__ == "__main__":
    main()
