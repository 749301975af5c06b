"""Which injectors wait for others to catch up (MillWheel paper §8.4: limiting skew)."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lowlevel.time import SECOND
from headrace.lowlevel.watermark import InjectorProgress


def too_far_ahead(injectors: Mapping[str, InjectorProgress], limit: float | None) -> set[str]:
    """The injectors (by stream) that have delivered records more than `limit` seconds past the least watermark.

    One whose own watermark is the least never waits: it is what the others wait for, so that they cannot wait for ever.
    Those that have ended have the greatest watermark there is.

    >>> slow, quick = InjectorProgress(watermark=0), InjectorProgress(watermark=90_000_000, greatest=100_000_000)
    >>> [too_far_ahead({"slow": slow, "quick": quick}, limit) for limit in (60, 120)]
    [{'quick'}, set()]
    """
    if limit is None or not injectors:
        return set()
    least = min(progress.watermark for progress in injectors.values())
    return {
        stream
        for stream, progress in injectors.items()
        if progress.watermark > least and progress.greatest - least > limit * SECOND
    }
