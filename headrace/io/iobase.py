"""Exports, under the module name of Beam, what splittable DoFns are made of, and `Read` and `Write`."""

from headrace.sdk.splittable.restrictions import RestrictionProgress, RestrictionTracker
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimator
from headrace.sdk.transforms.core.low_level import Read, Write

__all__ = ["Read", "RestrictionProgress", "RestrictionTracker", "WatermarkEstimator", "Write"]
