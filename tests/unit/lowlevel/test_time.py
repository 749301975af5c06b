"""Timestamps and durations against Beam's own, where it is installed, and by example."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp


def test_seconds_and_microseconds_add_up() -> None:
    assert Timestamp(1.5, 1).micros == 1_500_001
    assert Timestamp(micros=7).micros == 7
    assert Timestamp(-0.5).seconds() == -1
    assert Timestamp(-0.5).subseconds() == 500_000


def test_compares_and_hashes_with_numbers_and_durations() -> None:
    assert Timestamp(3) == 3 == Timestamp(3.0)
    assert Timestamp(3) < 3.5 <= Timestamp(3.5)
    assert 2 < Timestamp(3) != "3"
    assert Timestamp(3) == Duration(3) and hash(Timestamp(3)) == hash(Duration(3))
    assert max(Timestamp(1), Timestamp(2)) == 2


def test_arithmetic_keeps_instants_and_lengths_apart() -> None:
    assert Timestamp(10) - Timestamp(4) == Duration(6)
    assert isinstance(Timestamp(10) - 4, Timestamp)
    assert isinstance(Timestamp(10) - Timestamp(4), Duration)
    assert isinstance(Duration(4) + Timestamp(10), Timestamp)
    assert 10 - Duration(4) == Duration(6)
    with pytest.raises(TypeError, match="as a Duration"):
        Timestamp(1) + Timestamp(2)


def test_comparing_with_something_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="cannot interpret 'x' of type str as a Timestamp"):
        assert Timestamp(1) < "x"
    with pytest.raises(TypeError, match="as a Timestamp"):
        Timestamp.of(Duration(3))


def test_datetimes_are_exact_to_the_microsecond_over_centuries() -> None:
    moment = datetime(2262, 4, 11, 23, 47, 16, 854_775, tzinfo=UTC)
    assert Timestamp.from_utc_datetime(moment).to_utc_datetime(has_tz=True) == moment
    shifted = datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert Timestamp.of(shifted).to_rfc3339() == "2020-01-01T00:00:00Z"
    assert Timestamp.from_rfc3339("2020-01-01T00:00:00Z") == Timestamp.of(shifted)
    assert Timestamp.from_rfc3339("2020-01-01t00:00:00z") == Timestamp.of(shifted)
    with pytest.raises(ValueError, match="no time zone"):
        Timestamp.from_utc_datetime(datetime(2020, 1, 1))
    with pytest.raises(ValueError, match="could not parse"):
        Timestamp.from_rfc3339("yesterday")


def test_survives_pickling() -> None:
    for value in (Timestamp(1.25), Duration(-3)):
        copy = pickle.loads(pickle.dumps(value))
        assert copy == value and type(copy) is type(value)


@pytest.mark.parity
def test_limits_and_printing_are_beams() -> None:
    beam = pytest.importorskip("apache_beam.utils.timestamp")
    from apache_beam.transforms.window import GlobalWindow

    assert beam.MIN_TIMESTAMP.micros == MIN_TIMESTAMP
    assert beam.MAX_TIMESTAMP.micros == MAX_TIMESTAMP
    assert GlobalWindow().end.micros == END_OF_GLOBAL_WINDOW
    for seconds in (0, 1, -1, 1.5, -1.5, 1e9, 0.000001, 123456.789):
        assert repr(Timestamp(seconds)) == repr(beam.Timestamp(seconds))
        assert repr(Duration(seconds)) == repr(beam.Duration(seconds))
        assert float(Timestamp(seconds)) == float(beam.Timestamp(seconds))
        assert Timestamp(seconds).seconds() == beam.Timestamp(seconds).seconds()
        assert (Timestamp(seconds) % 7).micros == (beam.Timestamp(seconds) % 7).micros
        assert (Duration(seconds) * 3).micros == (beam.Duration(seconds) * 3).micros


def test_timestamps_of_other_fractions_of_a_second_as_in_beam() -> None:
    theirs = pytest.importorskip("apache_beam.utils.timestamp").Timestamp
    for given in [(1, 500, 3), (1.25, 7, 2), (2, 3, 0), (1, 5_000, 9), (1, 2, 6), (1, 2), (-0.5, 1, 3)]:
        assert Timestamp(*given).micros * 1000 == theirs(*given).nanos, given
    assert Timestamp(1, micros=7) == Timestamp(1, 7) == Timestamp(seconds=1, subseconds=7, precision=6)
    for wrong in (lambda: Timestamp(1, 1, 9), lambda: Timestamp(1, 0, 10), lambda: Timestamp(1, 2, micros=3)):
        with pytest.raises(ValueError, match=r"parts of a microsecond|give 0 to 9 digits|not both"):
            wrong()


def test_a_timedelta_is_a_length() -> None:
    assert Duration.of(timedelta(minutes=1, microseconds=1)).micros == 60_000_001
    assert Timestamp(5) + timedelta(seconds=2) - timedelta(seconds=1) == Timestamp(6)
    for endless in (float("inf"), float("-inf"), float("nan")):
        with pytest.raises(ValueError, match="is not finite"):
            Timestamp(endless)


@pytest.mark.parametrize("instant", [MIN_TIMESTAMP, MAX_TIMESTAMP])
def test_an_instant_that_no_datetime_expresses_is_named(instant: int) -> None:
    for convert in (Timestamp.to_utc_datetime, Timestamp.to_rfc3339):
        with pytest.raises(OverflowError, match=r"Timestamp\(.*\) is not within the years 1 to 9999 of UTC"):
            convert(Timestamp(micros=instant))
