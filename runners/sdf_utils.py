"""`headrace.runners.sdf_utils`, where Beam programs import the views of trackers and estimators from."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.sdk.splittable.tracker_view import (
    RestrictionTrackerView,
    ThreadsafeRestrictionTracker,
    ThreadsafeWatermarkEstimator,
)

__all__ = ["RestrictionTrackerView", "ThreadsafeRestrictionTracker", "ThreadsafeWatermarkEstimator"]

add_absent_names(__name__)
