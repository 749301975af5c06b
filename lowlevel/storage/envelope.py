r"""The frame of every object of a checkpoint: kind, format version, checksum and parts.

    b"HEADRACE"  16-byte checksum (BLAKE2b) of the rest  {"kind": …, "version": …, "sizes": […]}\n  parts

A reader checks the checksum first, so it can tell a damaged object from one that a later release wrote. This layout is
the same in all versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from headrace.lowlevel.errors import EMPTY, CheckpointError, DamagedError, HeadraceError
from headrace.lowlevel.storage import signed_store

MAGIC = b"HEADRACE"
_SUM_BYTES = 16
_BODY = len(MAGIC) + _SUM_BYTES
Bytes = bytes | bytearray | memoryview


def wrap(kind: str, version: int, parts: Sequence[Bytes]) -> bytes:
    """The bytes of an object with these parts.

    >>> [bytes(part) for part in unwrap("note", 1, wrap("note", 1, [b"a", b"bc"]), "x")]
    [b'a', b'bc']
    """
    sizes = [len(part) for part in parts]
    line = json.dumps({"kind": kind, "version": version, "sizes": sizes}).encode() + b"\n"
    summed = blake2b(line, digest_size=_SUM_BYTES)
    for part in parts:
        summed.update(part)
    return b"".join([MAGIC, summed.digest(), line, *parts])


def unwrap(kind: str, version: int, data: bytes, name: str) -> list[memoryview]:
    """The parts of an object; `name` stands for it in messages.

    Raises `DamagedError` for a wrong checksum, `CheckpointError` for another kind or version, or a signed object.

    >>> unwrap("note", 1, wrap("note", 2, []), "dir/x")
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.CheckpointError: dir/x has format version 2 of a note, this release reads version 1; ...
    """
    return unwrap_any({kind: version}, data, name)[1]


def unwrap_any(versions: Mapping[str, int], data: bytes, name: str) -> tuple[str, list[memoryview]]:
    """Kind and parts of an object that may be of several kinds. Raises as `unwrap` does.

    Args:
        versions: Kind -> the version of it that can be read.
        data: The object.
        name: What messages call the object.
    """
    if data[: len(signed_store.MAGIC)] == signed_store.MAGIC:
        raise CheckpointError(
            f"{name} is signed, and no key was given; give the one that the checkpoint was made with in "
            f"{signed_store.KEY_VARIABLE}. Nothing of it was loaded"
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
    if version != versions[kind]:
        raise CheckpointError(
            f"{name} has format version {version} of a {kind}, this release reads version {versions[kind]}; "
            "go on with the release that wrote it, or start over on an empty checkpoint"
        )
    return kind, _split(memoryview(data)[end:], sizes)


@contextmanager
def understood(name: str) -> Iterator[None]:
    """Turn exceptions of the `with` block into `CheckpointError` that names the object; a `HeadraceError` stays.

    A valid checksum is no proof of origin: anyone who can write to a checkpoint can write malicious objects with valid
    checksums.
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
