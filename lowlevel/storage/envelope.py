r"""The outside of every object of a checkpoint: what it is, of which version, and whether it is whole.

    b"HEADRACE"  16 bytes of checksum over all that follows  {"kind": …, "version": …, "sizes": […]}\n  parts

A reader checks the sum first: an object that was cut short or changed is told from one that a later release wrote.
That much of the layout is for all versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from headrace.lowlevel.checkpoint import signature
from headrace.lowlevel.errors import EMPTY, CheckpointError, DamagedError, HeadraceError

MAGIC = b"HEADRACE"
_SUM_BYTES = 16
_BODY = len(MAGIC) + _SUM_BYTES
Bytes = bytes | bytearray | memoryview
Versions = int | range
"""The one that is read, or all that are."""


def wrap(kind: str, version: int, parts: Sequence[Bytes]) -> bytes:
    """One object out of its parts.

    >>> [bytes(part) for part in unwrap("note", 1, wrap("note", 1, [b"a", b"bc"]), "x")]
    [b'a', b'bc']
    """
    sizes = [len(part) for part in parts]
    line = json.dumps({"kind": kind, "version": version, "sizes": sizes}).encode() + b"\n"
    summed = blake2b(line, digest_size=_SUM_BYTES)
    for part in parts:
        summed.update(part)
    return b"".join([MAGIC, summed.digest(), line, *parts])


def unwrap(kind: str, version: Versions, data: bytes, name: str) -> list[memoryview]:
    """The parts of an object called `name`; `CheckpointError` if it is damaged, of another kind or another version.

    >>> unwrap("note", 1, wrap("note", 2, []), "dir/x")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.CheckpointError: dir/x has format version 2 of a note, this release reads version 1; ...
    """
    return unwrap_any({kind: version}, data, name)[1]


def unwrap_any(versions: Mapping[str, Versions], data: bytes, name: str) -> tuple[str, list[memoryview]]:
    """Kind and parts of an object that may be of several kinds; `versions` has what is read of each."""
    if data[: len(signature.MAGIC)] == signature.MAGIC:
        raise CheckpointError(
            f"{name} is signed, and no key was given; give the one that the checkpoint was made with in "
            f"{signature.KEY_VARIABLE}. Nothing of it was loaded"
        )
    if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : _BODY] != _sum(data):
        raise DamagedError(name, f"its checksum does not fit its {len(data)} bytes" if data else EMPTY)
    with understood(name):
        end = data.index(b"\n", _BODY) + 1
        head = json.loads(data[_BODY:end])
        kind, version, sizes = str(head["kind"]), head["version"], [int(size) for size in head["sizes"]]
        if sum(sizes) != len(data) - end or min(sizes, default=0) < 0:
            raise ValueError(f"parts of {sizes} bytes in {len(data) - end}")
    if kind not in versions:
        raise CheckpointError(
            f"{name} is a {kind} where a {' or '.join(versions)} belongs; files were moved or renamed"
        )
    read = versions[kind]
    if version not in (read if isinstance(read, range) else (read,)):
        known = f"versions {read[0]} to {read[-1]}" if isinstance(read, range) else f"version {read}"
        raise CheckpointError(
            f"{name} has format version {version} of a {kind}, this release reads {known}; "
            "go on with the release that wrote it, or start over on an empty checkpoint"
        )
    return kind, _split(memoryview(data)[end:], sizes)


@contextmanager
def understood(name: str) -> Iterator[None]:
    """Whatever cannot be made sense of inside is the fault of the object called `name`: a `CheckpointError`.

    A checksum is no proof of origin: who can write to a checkpoint can also write objects that are whole and hostile.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"{name} is whole but says what this release does not write ({type(error).__name__}: {error!s:.200}); "
            "another release or somebody else wrote it: put the right file back, or start over on an empty checkpoint"
        ) from error


def _sum(data: bytes) -> bytes:
    return blake2b(memoryview(data)[_BODY:], digest_size=_SUM_BYTES).digest()


def _split(body: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    parts = []
    for size in sizes:
        parts.append(body[:size])
        body = body[size:]
    return parts
