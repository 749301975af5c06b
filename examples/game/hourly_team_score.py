"""Where: the points of each team, hour by hour of when they were scored, of a log that is complete.

The log says when each play was; that is its event time, and the window follows from it, wherever in the log it stands.

    python -m examples.game.hourly_team_score
"""

from __future__ import annotations

import headrace as beam
from examples.game.plays import MINUTE, Play, bounded
from headrace.transforms.window import FixedWindows, IntervalWindow, TimestampedValue


def build(plays: beam.PCollection[Play]) -> beam.PCollection[tuple[str, int]]:
    """(team, points) in windows of an hour."""
    return (
        plays
        | "At" >> beam.Map(lambda play: TimestampedValue((play.team, play.points), play.at))
        | beam.WindowInto(FixedWindows(60 * MINUTE))
        | "Sum" >> beam.CombinePerKey(sum)
    )


def show(score: tuple[str, int], window: IntervalWindow = beam.DoFn.WindowParam) -> None:
    """A line of the table."""
    team, points = score
    print(f"hour {window.start.micros // 3_600_000_000}  {team:6} {points:5}")


def main() -> None:
    """Print them."""
    with beam.Pipeline() as pipeline:
        _ = build(pipeline | beam.Create(bounded())) | beam.Map(show)


if __name__ == "__main__":
    main()
