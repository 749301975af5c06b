"""What sets the ids of records of different streams apart (paper §6.1.1)."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b


@cache
def space_of(stream: str) -> bytes:
    """What stands before the ids of a stream: injectors choose theirs without knowing of each other."""
    return blake2b(stream.encode("utf-8", "surrogatepass"), digest_size=8).digest()
