"""What: trackers and estimators as `process` gets them (`apache_beam.runners.sdf_utils`)."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TypeAlias

from headrace.lowlevel.time import Duration, Timestamp
from headrace.sdk.splittable.restrictions import RestrictionProgress, RestrictionTracker
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimator

DeferredTime: TypeAlias = Duration | Timestamp | None
"""When to resume: after some time, at a time, or at once."""


class ThreadsafeRestrictionTracker:
    """A tracker with a lock, which keeps what is split off for later.

    >>> from headrace.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
    >>> tracker = ThreadsafeRestrictionTracker(OffsetRestrictionTracker(OffsetRange(0, 10)))
    >>> tracker.try_claim(3)
    True
    """

    def __init__(self, restriction_tracker: RestrictionTracker) -> None:
        if not isinstance(restriction_tracker, RestrictionTracker):
            raise TypeError(
                f"create_tracker returned {restriction_tracker!r:.200}, which is no RestrictionTracker; return one"
            )
        self._tracker = restriction_tracker
        self._lock = RLock()
        self._deferred: tuple[object, DeferredTime] | None = None

    def current_restriction(self) -> object:
        """See `RestrictionTracker`."""
        with self._lock:
            return self._tracker.current_restriction()

    def current_progress(self) -> RestrictionProgress:
        """See `RestrictionTracker`."""
        with self._lock:
            return self._tracker.current_progress()

    def try_claim(self, position: object) -> bool:
        """See `RestrictionTracker`."""
        with self._lock:
            return self._tracker.try_claim(position)

    def try_split(self, fraction_of_remainder: float) -> tuple[object, object] | None:
        """See `RestrictionTracker`."""
        with self._lock:
            return self._tracker.try_split(fraction_of_remainder)

    def defer_remainder(self, deferred_time: DeferredTime = None) -> None:
        """Keep what is not claimed for a later call of `process`, which must return now.

        Args:
            deferred_time: When to resume: a `Duration` from now, or a `Timestamp`; as soon as possible if None.

        Raises:
            ValueError: `deferred_time` is of another type.
        """
        if deferred_time is not None and not isinstance(deferred_time, (Duration, Timestamp)):
            raise ValueError(
                f"defer_remainder takes a Duration, a Timestamp or None, got {deferred_time!r:.200}; "
                "write Duration(seconds)"
            )
        with self._lock:
            # What was split off before is the rest already.
            if self._deferred is None and (split := self._tracker.try_split(0)):
                self._deferred = split[1], deferred_time

    def deferred_status(self) -> tuple[object, DeferredTime] | None:
        """The restriction that is left for later, and when to resume; None if nothing is left."""
        return self._deferred

    def check_done(self) -> bool | None:
        """See `RestrictionTracker`."""
        with self._lock:
            return self._tracker.check_done()

    def is_bounded(self) -> bool:
        """See `RestrictionTracker`."""
        return self._tracker.is_bounded()


class CheckpointingTracker(ThreadsafeRestrictionTracker):
    """A tracker that refuses a claim, and keeps what is not claimed for later, when `is_due` says so.

    At least one position is claimed before, so that each call of `process` gets on.
    """

    def __init__(self, restriction_tracker: RestrictionTracker, is_due: Callable[[], bool]) -> None:
        super().__init__(restriction_tracker)
        self._is_due = is_due
        self._has_claimed = False

    def try_claim(self, position: object) -> bool:
        """See `RestrictionTracker`."""
        with self._lock:
            if self._has_claimed and self._is_due():
                self._checkpoint()
            claimed = self._tracker.try_claim(position)
            self._has_claimed |= claimed
            return claimed

    def _checkpoint(self) -> None:
        try:
            self.defer_remainder()
        except NotImplementedError:
            # A tracker that cannot split is processed in one go, and need not be asked again.
            self._is_due = _never


def _never() -> bool:
    return False


class RestrictionTrackerView:
    """What `process` sees of a tracker.

    >>> from headrace.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
    >>> tracker = ThreadsafeRestrictionTracker(OffsetRestrictionTracker(OffsetRange(0, 10)))
    >>> view = RestrictionTrackerView(tracker)
    >>> view.try_claim(3), view.is_bounded()
    (True, True)
    """

    def __init__(self, threadsafe_restriction_tracker: ThreadsafeRestrictionTracker) -> None:
        self._tracker = threadsafe_restriction_tracker

    def current_restriction(self) -> object:
        """See `RestrictionTracker`."""
        return self._tracker.current_restriction()

    def try_claim(self, position: object) -> bool:
        """See `RestrictionTracker`."""
        return self._tracker.try_claim(position)

    def defer_remainder(self, deferred_time: DeferredTime = None) -> None:
        """See `ThreadsafeRestrictionTracker`."""
        self._tracker.defer_remainder(deferred_time)

    def is_bounded(self) -> bool:
        """See `RestrictionTracker`."""
        return self._tracker.is_bounded()


class ThreadsafeWatermarkEstimator:
    """An estimator with a lock; methods of the estimator's own can be called too.

    >>> from headrace.io.watermark_estimators import ManualWatermarkEstimator
    >>> estimator = ThreadsafeWatermarkEstimator(ManualWatermarkEstimator(None))
    >>> estimator.set_watermark(Timestamp(10))
    >>> estimator.current_watermark()
    Timestamp(10)
    """

    def __init__(self, watermark_estimator: WatermarkEstimator) -> None:
        if not isinstance(watermark_estimator, WatermarkEstimator):
            raise TypeError(
                f"create_watermark_estimator returned {watermark_estimator!r:.200}, which is no WatermarkEstimator; "
                "return one"
            )
        self._estimator = watermark_estimator
        self._lock = RLock()

    def __getattr__(self, name: str) -> Callable[..., object]:
        method: Callable[..., object] = getattr(self._estimator, name)

        def locked(*args: object, **kwargs: object) -> object:
            with self._lock:
                return method(*args, **kwargs)

        return locked

    def get_estimator_state(self) -> object:
        """See `WatermarkEstimator`."""
        with self._lock:
            return self._estimator.get_estimator_state()

    def current_watermark(self) -> Timestamp | None:
        """See `WatermarkEstimator`."""
        with self._lock:
            return self._estimator.current_watermark()

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        """See `WatermarkEstimator`."""
        with self._lock:
            self._estimator.observe_timestamp(timestamp)
