"""The archive: what computations and injectors had when they were removed, kept until they come back or it is given up.

It is part of every commit from then on, so that the files that it names are never garbage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.fingerprint import Fingerprint, Member
from headrace.lowlevel.checkpoint.planrows import plan_of_row, plan_row
from headrace.lowlevel.time import MIN_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What one of them had. Persisted: every field. Times are microseconds UTC."""

    member: Member
    epoch: int
    """The last that it took part in."""
    watermark: int = MIN_TIMESTAMP
    """A computation's input low watermark, or what an injector's had reached."""
    plans: tuple[CopyPlan, ...] = ()
    """Where a computation's state and timers are, beside what else was on its level."""
    hold: tuple[int, bytes, str] | None = None
    """A computation's oldest hold: timestamp, encoded key, tag."""
    wall_timer: int | None = None
    """When a computation's earliest wall-time timer was due."""
    position: bytes = b""
    """Where an injector's next delivery would have started."""
    greatest: int = MIN_TIMESTAMP
    """Greatest timestamp that an injector had delivered."""
    ended: bool = False
    """Whether an injector's input had ended."""

    @property
    def name(self) -> tuple[str, str]:
        """Kind and name."""
        return self.member.kind, self.member.name


_PLAIN = ("epoch", "watermark", "wall_timer", "greatest", "ended")


def encode_archive(archive: Iterable[Archived]) -> bytes:
    """As JSON."""
    return json.dumps([_row(one) for one in archive]).encode()


def decode_archive(data: bytes) -> tuple[Archived, ...]:
    """Back from `encode_archive`."""
    members, rows = Fingerprint.decode, json.loads(data)
    return tuple(
        Archived(
            **{name: row[name] for name in _PLAIN},
            member=members(row["member"].encode()).members[0],
            plans=tuple(map(plan_of_row, row["plans"])),
            hold=row["hold"] and (row["hold"][0], bytes.fromhex(row["hold"][1]), row["hold"][2]),
            position=bytes.fromhex(row["position"]),
        )
        for row in rows
    )


def _row(one: Archived) -> dict[str, object]:
    return {
        **{name: getattr(one, name) for name in _PLAIN},
        "member": Fingerprint((one.member,)).encode().decode(),
        "plans": list(map(plan_row, one.plans)),
        "hold": one.hold and (one.hold[0], one.hold[1].hex(), one.hold[2]),
        "position": one.position.hex(),
    }
