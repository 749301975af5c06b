"""When and how: a board that is up to date while people play, and right in the end.

Teams: an early pane every five minutes, one when the watermark passes the end of the hour, and one for each late play,
each with all points so far. Users: all points since the beginning, every ten minutes of processing time. The plays of
one who was in an aeroplane come late, and correct the hours that are past.

    python -m examples.game.leader_board
"""

from __future__ import annotations

import headrace as beam
from examples.game.plays import MINUTE, Play, stream
from headrace.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    AtPeriod,
    Repeatedly,
)
from headrace.transforms.window import FixedWindows, GlobalWindows, IntervalWindow
from headrace.utils.windowed_value import PaneInfo


def teams(plays: beam.PCollection[Play]) -> beam.PCollection[tuple[str, int]]:
    """(team, points) in windows of an hour, early, on time and late."""
    return (
        plays
        | "Hours"
        >> beam.WindowInto(
            FixedWindows(60 * MINUTE),
            trigger=AfterWatermark(early=AtPeriod(5 * MINUTE), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=120 * MINUTE,
        )
        | "By team" >> beam.Map(lambda play: (play.team, play.points))
        | "Team sums" >> beam.CombinePerKey(sum)
    )


def users(plays: beam.PCollection[Play]) -> beam.PCollection[tuple[str, int]]:
    """(user, points) of all time, every ten minutes."""
    return (
        plays
        | "All time"
        >> beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterProcessingTime(10 * MINUTE)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
        )
        | "By user" >> beam.Map(lambda play: (play.user, play.points))
        | "User sums" >> beam.CombinePerKey(sum)
    )


def show(
    score: tuple[str, int], window: IntervalWindow = beam.DoFn.WindowParam, pane: PaneInfo = beam.DoFn.PaneInfoParam
) -> None:
    """A line for each pane of a team."""
    team, points = score
    print(f"hour {window.start.micros // 3_600_000_000}  {team:6} {points:5}  {pane.timing.name}")


def main() -> None:
    """Print what becomes of the board."""
    with beam.Pipeline() as pipeline:
        plays = pipeline | stream()
        _ = teams(plays) | beam.Map(show)


if __name__ == "__main__":
    main()
