"""The archive: state of removed computations and positions of removed injectors, kept until restored or discarded.

The archive is part of every later commit, so the files that it names are never garbage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.lowlevel.checkpoint.files.file_chain import FileChain, chain_of_row, chain_row
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint, Member
from headrace.lowlevel.time import MIN_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """An archived computation or injector. Persisted: every field. Times are microseconds UTC."""

    member: Member
    epoch: int
    """The last epoch in which it was part of the topology."""
    watermark: int = MIN_TIMESTAMP
    """The input low watermark of a computation, or the low watermark of an injector."""
    chains: tuple[FileChain, ...] = ()
    """The file chains with a computation's state and timers, which also contain others of its level."""
    hold: tuple[int, bytes, str] | None = None
    """A computation's oldest hold: timestamp, encoded key, tag."""
    wall_timer: int | None = None
    """The time at which a computation's earliest wall-time timer is due; None if there is none."""
    position: bytes = b""
    """The encoded position of an injector's next delivery."""
    greatest: int = MIN_TIMESTAMP
    """The greatest timestamp that an injector has delivered."""
    ended: bool = False
    """Whether an injector's input had ended."""

    @property
    def name(self) -> tuple[str, str]:
        """Kind and name of the member."""
        return self.member.kind, self.member.name


_PLAIN = ("epoch", "watermark", "wall_timer", "greatest", "ended")


def encode_archive(archive: Iterable[Archived]) -> bytes:
    """Encode the archive as JSON."""
    return json.dumps([_row(archived) for archived in archive]).encode()


def decode_archive(data: bytes) -> tuple[Archived, ...]:
    """Decode the result of `encode_archive`."""
    return tuple(
        Archived(
            **{name: row[name] for name in _PLAIN},
            member=Fingerprint.decode(row["member"].encode()).members[0],
            chains=tuple(map(chain_of_row, row["plans"])),
            hold=row["hold"] and (row["hold"][0], bytes.fromhex(row["hold"][1]), row["hold"][2]),
            position=bytes.fromhex(row["position"]),
        )
        for row in json.loads(data)
    )


def _row(archived: Archived) -> dict[str, object]:
    return {
        **{name: getattr(archived, name) for name in _PLAIN},
        "member": Fingerprint((archived.member,)).encode().decode(),
        "plans": list(map(chain_row, archived.chains)),
        "hold": archived.hold and (archived.hold[0], archived.hold[1].hex(), archived.hold[2]),
        "position": archived.position.hex(),
    }
