"""What: elements of Beam's bounded sources, split by split."""

from __future__ import annotations

from collections.abc import Iterator

from apache_beam.io import iobase

_BYTES = 16 << 20
"""Size of a split, as far as the source can say."""


class Splits:
    """Splits of bounded sources."""

    @staticmethod
    def of(source: iobase.BoundedSource) -> list[iobase.SourceBundle]:
        """The splits of a source."""
        return list(source.split(_BYTES))


def read_split(split: iobase.SourceBundle) -> Iterator[object]:
    """The elements of a split."""
    tracker = split.source.get_range_tracker(split.start_position, split.stop_position)
    return iter(split.source.read(tracker))
