"""When: a grouping that does not wait for stragglers (MillWheel paper §7.2)."""

from __future__ import annotations

from copy import copy
from typing import Self


class PercentileWatermark:
    """Groupings whose input low watermark may strip outliers."""

    watermark_percentile: float | None = None
    """The share of recent records, in per cent, that the watermark waits for; None for all."""

    def with_watermark_percentile(self, percentile: float | None) -> Self:
        """The same with a low watermark that waits for so many of 100 records only, and is faster for it.

        It is not Beam's, but MillWheel's. Behind a source with `max_delay`, where lateness is bounded, windows end as
        soon as that share of recent records needed, instead of after the whole `max_delay`. What comes later is late
        for this step and those after it, and treated as its windowing says; other readers of the same collection do
        not notice. Behind sources with a perfect watermark nothing changes.

        Args:
            percentile: Between 0 and 100, say 99; None to wait for all.

        >>> from headrace.transforms import GroupByKey
        >>> GroupByKey().with_watermark_percentile(99).watermark_percentile
        99
        """
        if percentile is not None and not 0 < percentile < 100:
            raise ValueError(
                f"{type(self).__name__}: a watermark percentile is between 0 and 100, got {percentile!r}; leave it out "
                "to wait for all records"
            )
        clone = copy(self)
        clone.watermark_percentile = percentile
        return clone
