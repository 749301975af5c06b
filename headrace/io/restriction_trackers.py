"""Exports, under the module name of Beam, ranges of offsets as restrictions."""

from headrace.sdk.splittable.offset_range import OffsetRange, OffsetRestrictionTracker, UnsplittableRestrictionTracker

__all__ = ["OffsetRange", "OffsetRestrictionTracker", "UnsplittableRestrictionTracker"]
