"""Offset ranges, progress, and trackers as `process` sees them."""

from __future__ import annotations

import pytest

from headrace.io.iobase import RestrictionProgress
from headrace.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker, UnsplittableRestrictionTracker
from headrace.io.watermark_estimators import (
    ManualWatermarkEstimator,
    MonotonicWatermarkEstimator,
    WalltimeWatermarkEstimator,
)
from headrace.runners.sdf_utils import (
    RestrictionTrackerView,
    ThreadsafeRestrictionTracker,
    ThreadsafeWatermarkEstimator,
)
from headrace.sdk.splittable.tracker_view import CheckpointingTracker
from headrace.utils.timestamp import Duration, Timestamp


def claimed(*offsets, of=OffsetRange(0, 100)):
    tracker = OffsetRestrictionTracker(of)
    for offset in offsets:
        tracker.try_claim(offset)
    return tracker


def test_a_small_rest_belongs_to_the_last_split():
    assert list(OffsetRange(0, 11).split(5)) == [OffsetRange(0, 5), OffsetRange(5, 10), OffsetRange(10, 11)]
    assert list(OffsetRange(0, 21).split(10)) == [OffsetRange(0, 10), OffsetRange(10, 21)]
    assert list(OffsetRange(0, 12).split(5, 3)) == [OffsetRange(0, 5), OffsetRange(5, 12)]
    assert list(OffsetRange(3, 3).split(5)) == []


def test_claims_end_with_the_range():
    tracker = OffsetRestrictionTracker(OffsetRange(2, 4))
    assert [tracker.try_claim(offset) for offset in (2, 3, 4)] == [True, True, False]
    tracker.check_done()
    assert tracker.is_bounded()


@pytest.mark.parametrize(("fraction", "cut"), [(0, 31), (0.5, 65), (0.7, 79)])
def test_a_split_leaves_what_is_claimed(fraction, cut):
    tracker = claimed(30)
    assert tracker.try_split(fraction) == (OffsetRange(0, cut), OffsetRange(cut, 100))
    assert tracker.current_restriction() == OffsetRange(0, cut)


def test_a_checkpoint_before_any_claim_leaves_nothing():
    tracker = claimed()
    assert tracker.try_split(0) == (OffsetRange(0, 0), OffsetRange(0, 100))
    assert not tracker.try_claim(0)
    tracker.check_done()
    assert tracker.try_split(0) is None


def test_there_is_nothing_to_split_off_at_the_end():
    assert claimed(99).try_split(0) is None
    assert claimed(99).try_split(0.5) is None


def test_what_is_not_claimed_is_told():
    with pytest.raises(ValueError, match=r"OffsetRange\(start=6, stop=100\) was not claimed"):
        claimed(5).check_done()
    with pytest.raises(ValueError, match=r"OffsetRange\(start=0, stop=100\) was not claimed"):
        claimed().check_done()
    claimed(of=OffsetRange(5, 5)).check_done()


def test_progress():
    assert claimed().current_progress().fraction_completed == 0
    assert claimed(25).current_progress().fraction_completed == 0.25
    progress = RestrictionProgress(completed=30, remaining=10)
    assert (progress.fraction_completed, progress.fraction_remaining, progress.total_work) == (0.75, 0.25, 40)
    known = RestrictionProgress(fraction=0.75, remaining=10)
    assert (known.completed_work, known.remaining_work) == (30, 10)
    assert RestrictionProgress(fraction=0.75).with_completed(30).remaining_work == 10
    assert RestrictionProgress(completed=0, remaining=0).fraction_completed == 1


def test_an_unsplittable_tracker_is_the_other_one_without_splits():
    tracker = UnsplittableRestrictionTracker(claimed(5))
    assert tracker.try_split(0) is None
    assert tracker.try_claim(6)
    assert tracker.current_restriction() == OffsetRange(0, 100)
    assert tracker.current_progress().fraction_completed == 0.06
    assert tracker.is_bounded()
    with pytest.raises(ValueError, match="was not claimed"):
        tracker.check_done()


def test_what_is_deferred_first_counts():
    tracker = ThreadsafeRestrictionTracker(claimed(5))
    view = RestrictionTrackerView(tracker)
    view.defer_remainder(Duration(7))
    view.defer_remainder(Duration(9))
    assert tracker.deferred_status() == (OffsetRange(6, 100), Duration(7))
    assert not view.try_claim(6)
    assert view.current_restriction() == OffsetRange(0, 6)
    assert view.is_bounded()


def test_nothing_is_deferred_at_the_end():
    tracker = ThreadsafeRestrictionTracker(claimed(99))
    tracker.defer_remainder()
    assert tracker.deferred_status() is None


def test_a_checkpoint_is_taken_at_the_second_claim():
    tracker = CheckpointingTracker(OffsetRestrictionTracker(OffsetRange(0, 10)), lambda: True)
    assert tracker.try_claim(3)
    assert not tracker.try_claim(4)
    assert tracker.deferred_status() == (OffsetRange(4, 10), None)
    tracker.check_done()


def test_a_tracker_that_cannot_split_goes_on():
    class Whole(OffsetRestrictionTracker):
        def try_split(self, fraction_of_remainder):
            raise NotImplementedError

    tracker = CheckpointingTracker(Whole(OffsetRange(0, 3)), lambda: True)
    assert [tracker.try_claim(offset) for offset in range(4)] == [True, True, True, False]
    assert tracker.deferred_status() is None


def resumed(estimator):
    """An estimator of the same kind with the state of this one."""
    state = estimator.get_estimator_state()
    return type(estimator).default_provider().create_watermark_estimator(state)


def test_the_monotonic_estimator_keeps_the_greatest_timestamp():
    estimator = MonotonicWatermarkEstimator.default_provider().create_watermark_estimator(None)
    assert estimator.current_watermark() is None
    estimator.observe_timestamp(Timestamp(5))
    assert resumed(estimator).current_watermark() == Timestamp(5)


def test_the_manual_estimator_is_where_it_was_set():
    estimator = ThreadsafeWatermarkEstimator(ManualWatermarkEstimator(None))
    estimator.set_watermark(Timestamp(5))
    estimator.observe_timestamp(Timestamp(9))
    assert estimator.current_watermark() == estimator.get_estimator_state() == Timestamp(5)
    with pytest.raises(ValueError, match="never decreases"):
        estimator.set_watermark(Timestamp(4))
    with pytest.raises(AttributeError):
        estimator.no_such_method()


def test_the_walltime_estimator_follows_the_clock_and_never_goes_back():
    before = Timestamp.now()
    estimator = WalltimeWatermarkEstimator()
    assert before <= estimator.current_watermark() <= Timestamp.now()
    ahead = WalltimeWatermarkEstimator(Timestamp.now() + 1000)
    assert resumed(ahead).current_watermark() == ahead.get_estimator_state()
