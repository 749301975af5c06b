"""Runs one grouping, without any runner: bundles go through the real worker over a state store in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import Batch, KeyRecords
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Computation
from headrace.lowlevel.topology.nodes import Keyed
from headrace.sdk.model.panes import PaneInfo, PaneInfoTiming
from headrace.sdk.windows import BoundedWindow

Element = tuple[object, object, int]
"""Key, payload as the grouping's input form has it, event time in microseconds."""


@dataclass(frozen=True, slots=True)
class Pane:
    """One output of a grouping."""

    key: object
    value: object
    window: BoundedWindow
    timestamp: int
    info: PaneInfo


class Harness:
    """Feeds a grouping and collects its panes, and checks what must hold whatever the windowing."""

    def __init__(self, grouping: Computation) -> None:
        self.place = Keyed("group", grouping, {"in": _first}, frozenset(["grouped"]))
        self.store = MemoryStateStore()
        self.watermark = MIN_TIMESTAMP
        self.output_watermark = MIN_TIMESTAMP
        self.wall_time = 0
        self.panes: list[Pane] = []
        self.counters: dict[str, int] = {}
        grouping.setup()

    def feed(self, elements: Iterable[Element], parts: int = 1) -> list[Pane]:
        """One bundle of elements, each key's in so many parts; the panes that it fires."""
        by_key: dict[bytes, list[Element]] = {}
        for element in elements:
            by_key.setdefault(encode_key(element[0]), []).append(element)
        return self._run({key_hash_of(key): (key, _parts(its, parts)) for key, its in by_key.items()}, self.watermark)

    def feed_and_advance(self, elements: Iterable[Element], watermark: int) -> list[Pane]:
        """One bundle of elements at whose end the watermark moves, as in an epoch that brings both."""
        by_key: dict[bytes, list[Element]] = {}
        for element in elements:
            by_key.setdefault(encode_key(element[0]), []).append(element)
        return self._run({key_hash_of(key): (key, _parts(its, 1)) for key, its in by_key.items()}, watermark)

    def advance(self, watermark: int) -> list[Pane]:
        """Move the input watermark; the panes that it fires."""
        return self._run({}, watermark)

    def clock(self, wall_time: int) -> list[Pane]:
        """Move the wall clock; the panes that it fires."""
        self.wall_time = wall_time
        return self._run({}, self.watermark)

    def stored(self) -> dict[str, int]:
        """Number of stored entries by table."""
        return self.store.count()

    @property
    def dropped(self) -> int:
        return self.counters.get("dropped_late", 0)

    def _run(self, keys: dict[bytes, tuple[bytes, list[KeyRecords]]], watermark: int) -> list[Pane]:
        panes: list[Pane] = []

        def emit(stream: str, batch: Batch) -> None:
            assert stream == "grouped"
            for ((key, value), window, info), timestamp in batch.rows():
                panes.append(Pane(key, value, window, timestamp, info))

        assert watermark >= self.watermark
        commit = Worker(self.place, self.store, emit).run(Bundle(keys, self.watermark, watermark, self.wall_time))
        self.store.apply(commit.delta)
        for counter, count in commit.counters.items():
            self.counters[counter] = self.counters.get(counter, 0) + count
        self._check(panes)
        self.watermark = watermark
        before, self.output_watermark = (
            self.output_watermark,
            min([watermark, *([commit.hold.timestamp] if commit.hold else [])]),
        )
        assert self.output_watermark >= before, "the output watermark went back"
        self.panes += panes
        return panes

    def _check(self, panes: Sequence[Pane]) -> None:
        """Nothing but LATE panes, and what takes back earlier ones, may be late for what comes after the grouping."""
        for pane in panes:
            if pane.info.timing is not PaneInfoTiming.LATE and not pane.info.is_retraction:
                assert pane.timestamp >= self.output_watermark, f"{pane} is late for output {self.output_watermark}"


def _parts(elements: list[Element], parts: int) -> list[KeyRecords]:
    size = -(-len(elements) // parts)
    cuts = [elements[at : at + size] for at in range(0, len(elements), size)]
    return [KeyRecords("in", [(key, payload) for key, payload, _ in cut], [time for *_, time in cut]) for cut in cuts]


def _first(value: object) -> object:
    return value[0]
