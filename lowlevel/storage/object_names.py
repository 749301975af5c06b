"""What the objects of a checkpoint are called, and back from a name to what it says.

headrace                                                  the marker: this is a checkpoint, and of which format
leases/<generation>                                       who drives, or drove
log/<place>                                               commits and seals, in order
deltas/<epoch>/<level>-<interval>-<token>                 what an attempt changed
snapshots/<level>-<interval>/<epoch>-<generation>-<token>/<part>
blobs/<epoch>-<generation>                                the bulk of a commit that is too big for its log entry
recordings/<first epoch>-<last epoch>                     for pictures of a recorded run; the engine never reads it

In a local directory `write#<digits>` is an object that has no name yet, or what a crash left of one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MARKER = "headrace"
LEASES = "leases"
LOG = "log"
DELTAS = "deltas"
SNAPSHOTS = "snapshots"
BLOBS = "blobs"
RECORDINGS = "recordings"
FOLDERS = (LEASES, LOG, DELTAS, SNAPSHOTS, BLOBS, RECORDINGS)
"""All that objects but the marker are in."""
_NUMBERED = re.compile(r"(?:leases|log)/(\d{20})")
_DELTA = re.compile(r"deltas/(\d{20})/\d+-\d+-[0-9A-Za-z_]+")
_SNAPSHOT = re.compile(r"snapshots/(\d+)-(\d+)/(\d{20})-(\d{20})-([0-9A-Za-z_]+)/\d{6}")
_BLOBS = re.compile(r"blobs/(\d{20})-(\d{20})")
_RECORDING = re.compile(r"recordings/(\d{20})-(\d{20})")
_TOKEN = re.compile(r"[0-9A-Za-z_]+")


class SnapshotName(NamedTuple):
    """What the name of a part of a snapshot says."""

    level: int
    interval: int
    epoch: int
    generation: int


def lease(generation: int) -> str:
    """Name of a generation's lease. Twenty digits, so that names sort as numbers do."""
    return f"{LEASES}/{generation:020}"


def log_entry(place: int) -> str:
    """Name of the entry at a place of the log."""
    return f"{LOG}/{place:020}"


def delta(epoch: int, level: int, interval: int, token: str) -> str:
    """Name of the delta file of one attempt."""
    return f"{DELTAS}/{epoch:020}/{level}-{interval}-{checked(token)}"


def snapshot_part(name: SnapshotName, token: str, part: int) -> str:
    """Name of one part of a snapshot."""
    folder = f"{SNAPSHOTS}/{name.level}-{name.interval}"
    return f"{folder}/{name.epoch:020}-{name.generation:020}-{checked(token)}/{part:06}"


def blobs(epoch: int, generation: int) -> str:
    """Name of the bulk of one commit."""
    return f"{BLOBS}/{epoch:020}-{generation:020}"


def recording(first: int, last: int) -> str:
    """Name of what was recorded of some epochs."""
    return f"{RECORDINGS}/{first:020}-{last:020}"


def recorded_epochs(path: str) -> tuple[int, int] | None:
    """The epochs that a recording's name says, first and last; None for another name."""
    found = _RECORDING.fullmatch(path)
    return (int(found[1]), int(found[2])) if found else None


def checked(token: str) -> str:
    """The token, if it can stand in a name; else ValueError."""
    if not _TOKEN.fullmatch(token):
        raise ValueError(f"token {token!r} cannot stand in a name; use letters, digits and _ only")
    return token


def number_of(path: str) -> int | None:
    """Generation of a lease, or place of a log entry; None for a name that is neither."""
    found = _NUMBERED.fullmatch(path)
    return int(found[1]) if found else None


def epoch_of(path: str) -> int | None:
    """Epoch of a delta or bulk object; None for another name."""
    found = _DELTA.fullmatch(path) or _BLOBS.fullmatch(path)
    return int(found[1]) if found else None


def is_blobs(path: object) -> bool:
    """Whether that is a name of the bulk of a commit."""
    return isinstance(path, str) and _BLOBS.fullmatch(path) is not None


def snapshot_name(path: str) -> SnapshotName | None:
    """What the name of a snapshot's part says; None for another name."""
    found = _SNAPSHOT.fullmatch(path)
    return SnapshotName(*map(int, found.groups()[:4])) if found else None
