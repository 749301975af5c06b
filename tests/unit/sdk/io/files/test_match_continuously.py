"""Files found again and again: what is put out when, by a clock of the test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headrace as beam
from headrace.io import fileio
from headrace.io.filesystem import BeamIOError, FileMetadata
from headrace.lowlevel.time import Timestamp
from headrace.sdk.io.files import fileio as own_fileio
from headrace.sdk.io.files.fileio import MatchInjector, Polls
from headrace.testing.util import assert_that, equal_to

SECOND = 1_000_000


class Looks:
    """An injector that a test asks at given times; each plan is committed."""

    def __init__(self, folder: Path, **settings: object) -> None:
        given = {"start": 100, "stop": None, "treatment": "ALLOW", "updated": False, "by_time": False} | settings
        times = {name: given[name] and given[name] * SECOND for name in ("start", "stop")}  # type: ignore[operator]  # numbers
        self.now = 0
        polls = Polls(f"{folder}/*", 10 * SECOND, **(given | times))  # type: ignore[arg-type]  # checked by the tests
        self.injector = MatchInjector(polls, lambda: self.now * SECOND)
        self.position = self.injector.start()
        self.watermark, self.done = 0, False

    def at(self, second: float) -> list[tuple[str, float]]:
        """Names and timestamps that the look at a time puts out."""
        self.now = second  # type: ignore[assignment]  # also parts of seconds
        delivery = self.injector.plan(self.position, 100, 2)
        again = self.injector.plan(self.position, 100, 2)
        assert delivery.idle or again == delivery, "an abandoned epoch is planned again"
        self.position, self.watermark, self.done = delivery.position, delivery.watermark // SECOND, delivery.done
        rows = [row for split in delivery.splits for batch in split.read() for row in batch.rows()]
        return [(os.path.basename(file.path), at / SECOND) for file, at in rows if isinstance(file, FileMetadata)]


def touch(path: Path, second: float) -> None:
    path.touch()
    os.utime(path, (second, second))


def test_a_file_is_put_out_once_with_the_time_of_the_look(tmp_path: Path) -> None:
    looks = Looks(tmp_path)
    touch(tmp_path / "a", 5)
    assert looks.at(99) == []
    assert looks.at(100) == [("a", 100)]
    assert looks.watermark == 100
    touch(tmp_path / "a", 7)
    touch(tmp_path / "b", 5)
    assert looks.at(109) == []
    assert looks.at(110) == [("b", 110)]
    assert looks.at(120) == []
    assert (looks.watermark, looks.done) == (120, False)


def test_a_new_run_goes_on_from_the_position(tmp_path: Path) -> None:
    before, after = Looks(tmp_path, stop=125), Looks(tmp_path, stop=125)
    touch(tmp_path / "a", 5)
    before.at(100)
    touch(tmp_path / "b", 5)
    after.position = before.position
    assert after.at(101) == [("b", 101)]
    assert after.at(111) == []
    assert after.done


def test_there_are_as_many_looks_as_intervals(tmp_path: Path) -> None:
    looks = Looks(tmp_path, stop=111)
    looks.at(105)
    assert not looks.done
    looks.at(200)
    assert looks.done
    none = Looks(tmp_path, stop=100)
    touch(tmp_path / "a", 5)
    assert none.at(100) == []
    assert none.done


def test_a_changed_file_is_put_out_again(tmp_path: Path) -> None:
    looks = Looks(tmp_path, updated=True)
    touch(tmp_path / "a", 5)
    touch(tmp_path / "b", 5)
    assert looks.at(100) == [("a", 100), ("b", 100)]
    touch(tmp_path / "a", 4)
    assert looks.at(110) == [("a", 110)]
    assert looks.at(120) == []


def test_by_time_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    looks = Looks(tmp_path, updated=True, by_time=True)
    touch(tmp_path / "a", 5)
    touch(tmp_path / "b", 7.25)
    assert looks.at(100) == [("a", 5), ("b", 7.25)]
    assert looks.watermark == 7
    touch(tmp_path / "old", 6)
    touch(tmp_path / "twin", 7.25)
    assert looks.at(110) == [("twin", 7.25)]
    assert looks.watermark == 110, "nothing newer was found"
    touch(tmp_path / "a", 115)
    assert looks.at(120) == [("a", 115)]
    assert looks.watermark == 115
    touch(tmp_path / "c", 114)
    assert looks.at(130) == []
    *_, seen = looks.position  # type: ignore[misc]  # plain data
    assert seen == ((f"{tmp_path}/a", 115 * SECOND),)


def test_a_time_that_is_still_to_come_leaves_no_file_out(tmp_path: Path) -> None:
    looks = Looks(tmp_path, updated=True, by_time=True)
    touch(tmp_path / "a", 90)
    touch(tmp_path / "ahead", 400)
    assert looks.at(100) == [("a", 90), ("ahead", 400)]
    assert looks.watermark == 90
    touch(tmp_path / "b", 105)
    assert looks.at(110) == [("b", 105)]
    touch(tmp_path / "old", 104)
    assert looks.at(120) == []
    *_, seen = looks.position  # type: ignore[misc]  # plain data
    assert seen == ((f"{tmp_path}/ahead", 400 * SECOND), (f"{tmp_path}/b", 105 * SECOND))
    assert looks.at(410) == []
    touch(tmp_path / "old", 399)
    assert looks.at(420) == []
    *_, seen = looks.position  # type: ignore[misc]  # plain data
    assert seen == ((f"{tmp_path}/ahead", 400 * SECOND),)


def test_a_file_without_a_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_fileio, "matching", lambda pattern, treatment: [FileMetadata("/a", 1)])
    assert Looks(tmp_path).at(100) == [("a", 100)]
    with pytest.raises(BeamIOError, match="last change of /a"):
        Looks(tmp_path, updated=True).at(100)


def test_an_empty_match_may_be_an_error(tmp_path: Path) -> None:
    with pytest.raises(BeamIOError, match="no file matches"):
        Looks(tmp_path, treatment="DISALLOW").at(100)


def test_in_a_pipeline(tmp_path: Path) -> None:
    touch(tmp_path / "a", 5)
    start = Timestamp.now()
    with beam.Pipeline("LocalRunner") as pipeline:
        for deduplicated, expected in ((True, ["a"]), (False, ["a", "a"])):
            files = pipeline | f"Match {deduplicated}" >> fileio.MatchContinuously(
                f"{tmp_path}/*", 0.2, deduplicated, start, start + 0.3, apply_windowing=True
            )
            assert files.is_bounded
            names = files | f"Names {deduplicated}" >> beam.Map(
                lambda file, window=beam.DoFn.WindowParam: (os.path.basename(file.path), window.end - window.start)
            )
            assert_that(names, equal_to([(name, 0.2) for name in expected]))
        assert not (pipeline | "No end" >> fileio.MatchContinuously(f"{tmp_path}/none")).is_bounded
        pipeline.steps[-2:] = []


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="has_deduplication=True"):
        fileio.MatchContinuously("/tmp/*", has_deduplication=False, timestamp_cursor=True)
    with pytest.raises(ValueError, match="interval must be positive"):
        fileio.MatchContinuously("/tmp/*", interval=0)
    with pytest.raises(ValueError, match="precedes"):
        fileio.MatchContinuously("/tmp/*", start_timestamp=2, stop_timestamp=1)
    with pytest.raises(ValueError, match="EmptyMatchTreatment"):
        fileio.MatchContinuously("/tmp/*", empty_match_treatment="NEVER")
