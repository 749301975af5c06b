"""The game's examples against sums made without any pipeline."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import headrace as beam
from examples.game import game_stats, hourly_team_score, leader_board, user_score
from examples.game.plays import MINUTE, ROBOTS, Play, bounded, plays, stream
from headrace.transforms.window import FixedWindows, IntervalWindow
from headrace.utils.windowed_value import PaneInfo
from tests.collecting import collected

HOUR = 60 * MINUTE


def summed(key: Callable[[Play], object], of: list[Play] | None = None) -> dict[object, int]:
    sums: Counter[object] = Counter()
    for play in plays() if of is None else of:
        sums[key(play)] += play.points
    return dict(sums)


def in_window(
    score: tuple[str, int], window: IntervalWindow = beam.DoFn.WindowParam, pane: PaneInfo = beam.DoFn.PaneInfoParam
) -> tuple[tuple[str, int], int, str]:
    name, points = score
    return (name, window.start.micros // 1_000_000), points, pane.timing.name


def test_user_scores() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        found = collected(user_score.build(pipeline | beam.Create(bounded())))
    assert dict(found()) == summed(lambda play: play.user)


def test_hourly_team_scores() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        found = collected(hourly_team_score.build(pipeline | beam.Create(bounded())) | beam.Map(in_window))
    assert {key: points for key, points, _ in found()} == summed(lambda play: (play.team, play.at // HOUR * HOUR))


def test_the_leader_board_is_right_in_the_end_whatever_came_late() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        plays = pipeline | stream()
        hours = collected(leader_board.teams(plays) | beam.Map(in_window))
        users = collected(leader_board.users(plays))
    panes: dict[object, list[tuple[int, str]]] = defaultdict(list)
    for key, points, timing in hours():
        panes[key].append((points, timing))
    assert {key: its[-1][0] for key, its in panes.items()} == summed(lambda play: (play.team, play.at // HOUR * HOUR))
    # The one who was in an aeroplane corrects the first hour of one team.
    assert [key for key, its in panes.items() if its[-1][1] == "LATE"] == [("coral", 0)]
    assert all([points for points, _ in its] == sorted(points for points, _ in its) for its in panes.values())
    assert dict(users()) == summed(lambda play: play.user)


def test_robots_are_found_and_left_out() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        found = collected(game_stats.robots(pipeline | stream() | beam.WindowInto(FixedWindows(30 * MINUTE))))
    with beam.Pipeline("LocalRunner") as pipeline:
        plays = pipeline | stream()
        scores = collected(game_stats.scores(plays) | "In window" >> beam.Map(in_window))
    assert set(found()) == set(ROBOTS)
    # What comes when its window is closed is dropped here: nothing allows for it.
    half = 30 * MINUTE
    people = [play for play in bounded() if play.user not in ROBOTS and play.known // MINUTE * MINUTE - 30 < end(play)]
    assert {key: points for key, points, _ in scores()} == summed(
        lambda play: (play.team, play.at // half * half), people
    )


def end(play: Play) -> int:
    """Of its half hour."""
    return (play.at // (30 * MINUTE) + 1) * 30 * MINUTE


def test_sessions_tell_how_long_people_play() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        found = collected(game_stats.durations(pipeline | stream()))
    longest = {user: max(minutes for name, minutes in found() if name == user) for user, _ in found()}
    assert longest["robot-1"] == (7200 - 20) / 60
    assert longest["amber-1"] < 30
