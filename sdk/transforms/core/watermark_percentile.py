"""When: a grouping that does not wait for stragglers (MillWheel paper §7.2)."""

from __future__ import annotations

from copy import copy
from typing import Self


class PercentileWatermark:
    """Mixin of groupings whose input low watermark may ignore outliers."""

    watermark_percentile: float | None = None
    """Percentile of recent records that the watermark waits for; None to wait for all records."""

    def with_watermark_percentile(self, percentile: float | None) -> Self:
        """The same transform with a low watermark that waits only for this percentile of recent records.

        The method is MillWheel's, not Beam's. After a source with `max_delay`, windows end after the delay that covers
        this share of recent records, instead of after the whole `max_delay`. Later records are late for this step and
        the steps after it, which treat them as their windowing says; other consumers of the same collection are not
        affected. After sources with a perfect watermark the method has no effect.

        Args:
            percentile: Percentile between 0 and 100, such as 99; None to wait for all records.

        Raises:
            ValueError: The percentile is not between 0 and 100.

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
