"""The marker: the object that makes a place a checkpoint. It is the first one written and never changes."""

from __future__ import annotations

import json
from hashlib import blake2b

from headrace.lowlevel.checkpoint import envelope, paths
from headrace.lowlevel.errors import CheckpointError, DamagedError
from headrace.lowlevel.store import Store

KIND = "checkpoint"
FORMAT_VERSION = 1
"""Of the arrangement of a checkpoint's objects."""
ELSEWHERE = "give the directory or URL that --checkpoint names when the pipeline is run"
"""What to do where a checkpoint is only looked at."""


def read_marker(store: Store, remedy: str = "give an empty or new directory") -> str | None:
    """The checkpoint's identity; None where there is nothing at all.

    `remedy` is what to do about a place that holds something else.

    Raises `CheckpointError` for a place that holds something else, or a checkpoint of another format.
    """
    try:
        if (data := _marker_or_nothing(store, remedy)) is None:
            return None
        envelope.unwrap(KIND, FORMAT_VERSION, data, f"{paths.MARKER} in {store.describe()}")
    except DamagedError as error:
        if any(map(store.list, paths.FOLDERS)):
            raise
        raise DamagedError(
            error.name,
            error.damage,
            "nothing else is there, so power was lost while the checkpoint was made, before any epoch was committed; "
            "delete the file and start again: nothing is lost",
        ) from error
    return _identity(data)


def _marker_or_nothing(store: Store, remedy: str) -> bytes | None:
    data = store.get(paths.MARKER)
    if data is None:
        if store.is_empty():
            return None
        # Two drivers may begin at once: the other one's marker is there before anything else of it.
        data = store.get(paths.MARKER)
    if data is None:
        raise CheckpointError(
            f"{store.describe()} holds files but is no checkpoint of Headrace (it has no object {paths.MARKER!r}); "
            f"{remedy}"
        )
    return data


def ensure_same(store: Store, identity: str, epoch: int) -> None:
    """Raise `CheckpointError` if the checkpoint that a driver opened is gone, or is another; `epoch` is committed last.

    Not a matter of fencing: a folder that was removed, or is no longer mounted, may have come back empty.
    """
    data = store.get(paths.MARKER)
    if data is not None and _identity(data) == identity:
        return
    what = "was removed" if data is None else "was replaced by another one"
    committed = f"nothing after epoch {epoch} is committed" if epoch else "nothing is committed"
    raise CheckpointError(
        f"the checkpoint {store.describe()} {what} while the run was going on; {committed}. Put it back as it was and "
        "start again; without it a run begins anew, with the first record"
    )


def _identity(marker: bytes) -> str:
    return blake2b(marker, digest_size=8).hexdigest()


def ensure_marker(store: Store, owner: str, now_us: int) -> str:
    """The checkpoint's identity; an empty place becomes a checkpoint.

    Raises `CheckpointError` for a store that gives a name twice: some that call themselves S3 do not know conditional
    writes, and nothing would keep two drivers apart.
    """
    while (identity := read_marker(store)) is None:
        content = json.dumps({"made_by": owner, "made": now_us}).encode()
        data = envelope.wrap(KIND, FORMAT_VERSION, [content])
        if store.put_if_absent(paths.MARKER, data) and store.put_if_absent(paths.MARKER, data):
            raise CheckpointError(
                f"{store.describe()} does not know conditional writes (If-None-Match: *), which keep two drivers "
                "apart; give the checkpoint another store"
            )
    return identity
