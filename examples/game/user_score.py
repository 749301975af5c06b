"""What: how many points each user has, of a log that is complete.

Nothing says where in event time or when, so there is one result for each user, when the input has ended.

    python -m examples.game.user_score
"""

from __future__ import annotations

import headrace as beam
from examples.game.plays import Play, bounded


def build(plays: beam.PCollection[Play]) -> beam.PCollection[tuple[str, int]]:
    """(user, points)."""
    return plays | "By user" >> beam.Map(lambda play: (play.user, play.points)) | "Sum" >> beam.CombinePerKey(sum)


def main() -> None:
    """Print them."""
    with beam.Pipeline() as pipeline:
        _ = build(pipeline | beam.Create(bounded())) | beam.MapTuple(lambda user, points: print(f"{user:9} {points:5}"))


if __name__ == "__main__":
    main()
