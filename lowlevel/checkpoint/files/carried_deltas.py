"""Deltas that a commit carries: small delta files inside the log entry of their epoch, so that the epoch is one write.

They are one part of the entry. Its place among the parts must not change, so that a reader of state need not
understand the rest of the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.lowlevel.checkpoint.files.delta_file import DeltaHeader, decode_deltas
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state.state_store import Delta
from headrace.lowlevel.storage import envelope
from headrace.lowlevel.storage.object_store import ObjectStorage

ENTRY_KIND = "commit"
ENTRY_VERSION = 5
"""Kind and format version of a commit's log entry."""
PART = 4
"""The place of the carried deltas among the parts of the entry."""
MOST_BYTES = 64 * 1024
"""Largest size of a delta file that a commit carries."""
_KIND = "carried deltas"
_VERSION = 1


def carried_part(files: Iterable[bytes]) -> bytes:
    """The part of a log entry with these delta files."""
    return envelope.wrap(_KIND, _VERSION, list(files))


def carried_files(parts: Sequence[memoryview], name: str) -> list[memoryview]:
    """The delta files in a log entry, given its parts; `name` stands for it in messages."""
    return envelope.unwrap(_KIND, _VERSION, bytes(parts[PART]), name)


def read_carried(store: ObjectStorage, path: str, header: DeltaHeader, only: str | None = None) -> dict[str, Delta]:
    """Read the deltas of an attempt from the log entry at `path`, by computation; `only` selects one computation.

    Raises `CheckpointError` if the entry is missing, damaged, or carries no file of this attempt.
    """
    name = f"{path} in {store.describe()}"
    if (data := store.get(path)) is None:
        raise CheckpointError(
            f"{name} is missing, but a commit names it for state that it carries; put the file back, or start over on "
            "an empty checkpoint"
        )
    parts = envelope.unwrap(ENTRY_KIND, ENTRY_VERSION, data, name)
    with envelope.understood(name):
        files = carried_files(parts, name)
    for file in files:
        found, deltas = decode_deltas(bytes(file), name, only)
        if found == header:
            return deltas
    raise CheckpointError(f"{name} carries no deltas of {header}; files were moved or renamed")
