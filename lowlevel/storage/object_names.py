"""Names of the objects in a checkpoint, and parsing of these names.

headrace                                                  the marker: identifies a checkpoint and its format
leases/<generation>                                       a driver, present or past
log/<place>                                               commits and seals; the place is the entry's number, from 1
deltas/<epoch>/<level>-<interval>-<token>                 what an attempt changed
snapshots/<level>-<interval>/<epoch>-<generation>-<token>/<part>
blobs/<epoch>-<generation>                                the bulk of a commit that is too large for its log entry
sources/<digest of the stream>/<digest of the contents>   what an injector keeps besides its position
recordings/<first epoch>-<last epoch>                     for pictures of a recorded run; the engine never reads them

In a local directory, `write#<digits>` is a temporary file: an unfinished write, or the remains of a crash.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

MARKER = "headrace"
LEASES = "leases"
LOG = "log"
DELTAS = "deltas"
SNAPSHOTS = "snapshots"
BLOBS = "blobs"
RECORDINGS = "recordings"
SOURCES = "sources"
FOLDERS = (LEASES, LOG, DELTAS, SNAPSHOTS, BLOBS, RECORDINGS, SOURCES)
"""The folders of all objects but the marker."""
_NUMBERED = re.compile(r"(?:leases|log)/(\d{20})")
_DELTA = re.compile(r"deltas/(\d{20})/\d+-\d+-[0-9A-Za-z_]+")
_SNAPSHOT = re.compile(r"snapshots/(\d+)-(\d+)/(\d{20})-(\d{20})-([0-9A-Za-z_]+)/\d{6}")
_BLOBS = re.compile(r"blobs/(\d{20})-(\d{20})")
_RECORDING = re.compile(r"recordings/(\d{20})-(\d{20})")
_TOKEN = re.compile(r"[0-9A-Za-z_]+")


class SnapshotName(NamedTuple):
    """The fields in the name of a snapshot's part."""

    level: int
    interval: int
    epoch: int
    generation: int


def lease(generation: int) -> str:
    """Name of a generation's lease. Numbers have twenty digits, so that names sort as numbers."""
    return f"{LEASES}/{generation:020}"


def log_entry(place: int) -> str:
    """Name of the log entry at a place, from 1."""
    return f"{LOG}/{place:020}"


def delta(epoch: int, level: int, interval: int, token: str) -> str:
    """Name of the delta file of one attempt at a task. Raises ValueError for an invalid token."""
    return f"{DELTAS}/{epoch:020}/{level}-{interval}-{checked(token)}"


def snapshot_part(name: SnapshotName, token: str, part: int) -> str:
    """Name of one part of a snapshot. Raises ValueError for an invalid token."""
    folder = f"{SNAPSHOTS}/{name.level}-{name.interval}"
    return f"{folder}/{name.epoch:020}-{name.generation:020}-{checked(token)}/{part:06}"


def blobs(epoch: int, generation: int) -> str:
    """Name of the object with the bulk of one commit."""
    return f"{BLOBS}/{epoch:020}-{generation:020}"


def source(stream: str) -> str:
    """Name of the folder with what the injector of a stream keeps."""
    return f"{SOURCES}/{blake2b(stream.encode(), digest_size=16).hexdigest()}"


def recording(first: int, last: int) -> str:
    """Name of a recording of the epochs from `first` to `last`."""
    return f"{RECORDINGS}/{first:020}-{last:020}"


def recorded_epochs(path: str) -> tuple[int, int] | None:
    """First and last epoch in the name of a recording; None for other names."""
    found = _RECORDING.fullmatch(path)
    return (int(found[1]), int(found[2])) if found else None


def checked(token: str) -> str:
    """Return a token that is valid in a name; otherwise raise ValueError."""
    if not _TOKEN.fullmatch(token):
        raise ValueError(f"token {token!r} cannot stand in a name; use letters, digits and _ only")
    return token


def number_of(path: str) -> int | None:
    """Generation in the name of a lease, or place in the name of a log entry; None for other names."""
    found = _NUMBERED.fullmatch(path)
    return int(found[1]) if found else None


def epoch_of(path: str) -> int | None:
    """Epoch in the name of a delta file or a bulk object; None for other names."""
    found = _DELTA.fullmatch(path) or _BLOBS.fullmatch(path)
    return int(found[1]) if found else None


def is_blobs(path: object) -> bool:
    """Whether this is the name of a bulk object."""
    return isinstance(path, str) and _BLOBS.fullmatch(path) is not None


def snapshot_name(path: str) -> SnapshotName | None:
    """The fields in the name of a snapshot's part; None for other names."""
    found = _SNAPSHOT.fullmatch(path)
    return SnapshotName(*map(int, found.groups()[:4])) if found else None
