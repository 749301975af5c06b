"""The marker: the object that identifies a checkpoint. It is written first and never changes."""

from __future__ import annotations

import json
from hashlib import blake2b

from headrace.lowlevel.errors import CheckpointError, DamagedError
from headrace.lowlevel.storage import envelope, object_names
from headrace.lowlevel.storage.object_store import ObjectStorage

KIND = "checkpoint"
FORMAT_VERSION = 1
"""Format version of the layout of a checkpoint's objects."""
ELSEWHERE = "give the directory or URL that --checkpoint names when the pipeline is run"
"""The remedy for readers of a checkpoint."""


def read_marker(store: ObjectStorage, remedy: str = "give an empty or new directory") -> str | None:
    """The identity of a checkpoint; None if the store is empty.

    Raises `CheckpointError` if the store contains something else, with `remedy` in the message, or a checkpoint of
    another format; `DamagedError` if the marker is damaged.
    """
    try:
        if (data := _marker_or_nothing(store, remedy)) is None:
            return None
        envelope.unwrap(KIND, FORMAT_VERSION, data, f"{object_names.MARKER} in {store.describe()}")
    except DamagedError as error:
        if any(map(store.list, object_names.FOLDERS)):
            raise
        raise DamagedError(
            error.name,
            error.damage,
            "nothing else is there, so power was lost while the checkpoint was made, before any epoch was committed; "
            "delete the file and start again: nothing is lost",
        ) from error
    return _identity(data)


def _marker_or_nothing(store: ObjectStorage, remedy: str) -> bytes | None:
    data = store.get(object_names.MARKER)
    if data is None:
        if store.is_empty():
            return None
        # Another driver may have begun meanwhile; it writes its marker before other objects.
        data = store.get(object_names.MARKER)
    if data is None:
        raise CheckpointError(
            f"{store.describe()} holds files but is no checkpoint of Headrace "
            f"(it has no object {object_names.MARKER!r}); {remedy}"
        )
    return data


def ensure_same(store: ObjectStorage, identity: str, epoch: int) -> None:
    """Raise `CheckpointError` if the checkpoint that a driver opened was removed or replaced.

    Fencing does not detect that: a folder that was removed or unmounted may have been made again, empty. `epoch` is the
    last committed epoch, for the message.
    """
    data = store.get(object_names.MARKER)
    if data is not None and _identity(data) == identity:
        return
    event = "was removed" if data is None else "was replaced by another one"
    committed = f"nothing after epoch {epoch} is committed" if epoch else "nothing is committed"
    raise CheckpointError(
        f"the checkpoint {store.describe()} {event} while the run was going on; {committed}. Put it back as it was and "
        "start again; without it a run begins anew, with the first record"
    )


def _identity(marker: bytes) -> str:
    return blake2b(marker, digest_size=8).hexdigest()


def ensure_marker(store: ObjectStorage, owner: str, now_us: int) -> str:
    """The identity of a checkpoint; in an empty store, write the marker of a new one.

    Raises `CheckpointError` as `read_marker` does, and for a store without conditional writes, such as some that
    imitate S3: two drivers could not exclude each other there.
    """
    while (identity := read_marker(store)) is None:
        content = json.dumps({"made_by": owner, "made": now_us}).encode()
        data = envelope.wrap(KIND, FORMAT_VERSION, [content])
        if store.put_if_absent(object_names.MARKER, data) and store.put_if_absent(object_names.MARKER, data):
            raise CheckpointError(
                f"{store.describe()} does not know conditional writes (If-None-Match: *), which keep two drivers "
                "apart; give the checkpoint another store"
            )
    return identity
