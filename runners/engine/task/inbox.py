"""What a task of a keyed level gets: the rows of the tasks before it, sorted by what they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from headrace.lowlevel.checkpoint import CopyPlan
from headrace.lowlevel.columnparcel import decode_parcel
from headrace.lowlevel.lateness import NO_LATENESS, Lateness
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.watermark import Frontier, InjectorProgress
from headrace.runners.engine.epoch import Control, EpochSpec, Kind, Row, Sender, unpack
from headrace.runners.engine.handed import Handed

Carried = bytes | int
"""A parcel on its way: encoded, or the number by which it is in `Handed`."""


@dataclass
class Inbox:
    """Rows of one task of a keyed level, sorted by what they are."""

    parcels: list[tuple[Sender, int, int, Carried]] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    plans: dict[int, CopyPlan] = field(default_factory=dict)
    """By interval."""

    def take(self, row: Row) -> None:
        """Put a row where it belongs."""
        _, _, kind, blob = row
        if kind == Kind.PARCEL:
            self.parcels.append(cast(tuple[Sender, int, int, Carried], unpack(blob)))
        elif kind == Kind.CONTROL:
            self.controls.append(cast(Control, unpack(blob)))
        elif kind == Kind.CHAIN:
            plan = cast(CopyPlan, unpack(blob))
            self.plans[plan.interval] = plan

    def senders(self) -> list[Sender]:
        """Every attempt whose output arrived, in a fixed order."""
        found = {control.sender for control in self.controls} | {sender for sender, *_ in self.parcels}
        return sorted(found, key=lambda sender: (sender.level, sender.index, sender.token))

    def torn(self) -> bool:
        """Whether two attempts at one task, or two epochs, sent something: an attempt that was replaced goes on."""
        senders = self.senders()
        places = {(sender.level, sender.index) for sender in senders}
        return len(places) < len(senders) or len({control.spec.epoch for control in self.controls}) > 1

    def parcels_of(self, interval: int, handed: Handed | None = None) -> Iterator[Parcel]:
        """An interval's records, in an order that does not depend on how they arrived; some are in `handed`.

        Each is let go here when it is asked for: decoded, records take several times the room.
        """
        mine = [parcel for parcel in self.parcels if parcel[2] == interval]
        self.parcels = [parcel for parcel in self.parcels if parcel[2] != interval]
        mine.sort(key=lambda parcel: (parcel[0].level, parcel[0].index, parcel[0].token, parcel[1]), reverse=True)
        while mine:
            carried = mine.pop()[3]
            if isinstance(carried, bytes):
                yield decode_parcel(carried)
            else:
                assert handed is not None, "numbers are given where parcels are left"
                yield handed.take(carried)

    def frontier(self, spec: EpochSpec) -> Frontier:
        """Unfinished work as the tasks before this level left it."""
        greatest: dict[str, int] = {}
        holds: dict[str, int] = {}
        by_interval: dict[str, dict[int, int]] = {}
        for control in self.controls:
            for stream, timestamp in control.greatest.items():
                greatest[stream] = max(greatest.get(stream, MIN_TIMESTAMP), timestamp)
            for name, hold in control.holds.items():
                holds[name] = min(holds.get(name, hold), hold)
            for name, held in control.by_interval.items():
                by_interval.setdefault(name, {}).update(held)
        return Frontier(advanced(spec, greatest, self.lateness()), holds, spec.before.pending, by_interval)

    def lateness(self) -> dict[str, Lateness]:
        """Injector stream -> how late the records of this epoch were."""
        found: dict[str, Lateness] = {}
        for control in self.controls:
            for stream, lateness in control.lateness.items():
                # What tasks have read is to be added up; those behind them all say the same.
                adds = control.sender.level == 0 and stream in found
                found[stream] = found[stream].plus(lateness) if adds else lateness
        return found


def advanced(spec: EpochSpec, greatest: dict[str, int], lateness: dict[str, Lateness]) -> dict[str, InjectorProgress]:
    """Injectors after this epoch's deliveries."""
    return {
        stream: spec.before.injectors[stream].after(
            greatest.get(stream, MIN_TIMESTAMP), watermark, done, lateness.get(stream, NO_LATENESS)
        )
        for stream, (watermark, done) in spec.deliveries.items()
    }
