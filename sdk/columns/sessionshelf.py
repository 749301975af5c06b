"""Where: parts of sessions that are not over, kept as they came until they are due; see also `shelf`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.lowlevel.intervalcomputation import IntervalContext
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.sdk.columns.parts import Parts
from headrace.sdk.columns.reducers import Reducers
from headrace.sdk.columns.shelf import Name

SMALL = 4096
"""Rows of a small segment."""
GROWTH = 8
MANY = 16
"""Segments of about the same size that become one."""


@dataclass(slots=True)
class SessionShelf:
    """The segments of one interval, during one bundle."""

    context: IntervalContext
    reducers: Reducers
    _names: dict[bytes, Name] = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self._names = {name: Name.decode(name) for name in self.context.copy.segment_names()}

    def due(self) -> Iterator[Parts]:
        """The parts that the watermark has reached just now."""
        before, now = self.context.watermark_before, self.context.watermark
        for name, told in list(self._names.items()):
            if told.least <= now and told.greatest > before:
                yield self._read(name, before, now)
            if told.greatest <= now:
                self._drop(name)

    def waiting(self) -> Iterator[Parts]:
        """Segments with parts that are not due yet, in order of their keys."""
        now = self.context.watermark
        return (self._decode(name) for name, told in self._names.items() if told.greatest > now)

    def add(self, parts: Parts) -> None:
        """Keep parts; before that, make one of many segments if it is time for that."""
        by_tier: dict[int, list[bytes]] = defaultdict(list)
        for name, told in self._names.items():
            by_tier[told.tier].append(name)
        for names in by_tier.values():
            if len(names) >= MANY:
                self._compact(names)
        if len(parts):
            self._write(parts)

    def _decode(self, name: bytes) -> Parts:
        contents = self.context.copy.segment(name)
        assert contents is not None, "it is in the list of names"
        return Parts.decode(contents)

    def _read(self, name: bytes, after: int, until: int) -> Parts:
        parts = self._decode(name)
        return parts.where((parts.due > after) & (parts.due <= until))

    def _drop(self, name: bytes) -> None:
        self.context.drop(name)
        del self._names[name]

    def _write(self, parts: Parts) -> None:
        tier, size = 0, len(parts) // SMALL
        while size:
            tier, size = tier + 1, size // GROWTH
        bounds = int(parts.due.min()), int(parts.due.max())
        name = Name(*bounds, tier, self.context.epoch, self.context.interval, self._written)
        self._written += 1
        self.context.put(name.encode(), parts.by_key().encode())

    def _compact(self, names: list[bytes]) -> None:
        """One segment instead of many; what was due is left out, and parts of a session become one."""
        waiting = [self._read(name, self.context.watermark, MAX_TIMESTAMP) for name in names]
        for name in names:
            self._drop(name)
        parts = Parts.joined([part for part in waiting if len(part)], len(self.reducers.kept))
        if len(parts):
            self._write(parts.reduced(self.reducers))
