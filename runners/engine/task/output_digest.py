"""A digest of the output of an attempt: which attempts of a weak producer may replace each other (paper §6.1.3).

Some consumers may have the productions of one attempt, other consumers those of another. Together they have every
record once, if both attempts sent as many records to the same keys and reported the same watermarks. The values may
differ, as the productions are weak. If attempts differ in more, a mixture could lose records, and the epoch is
given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from headrace.lowlevel.records.block import Block


class OutputDigest:
    """Computes the digest of one attempt; costs nothing if no stream is weak.

    >>> from array import array
    >>> def digest(*streams):
    ...     output = OutputDigest(frozenset(["weak"]))
    ...     for stream in streams:
    ...         output.add(0, Block("count", stream, key_hashes=[bytes(16)], counts=array("q", [2])))
    ...     return output.of(1, {}, {})
    >>> digest("weak") == digest("weak"), digest("weak") == digest("weak", "weak"), digest("weak", "strong")
    (True, False, '')
    """

    def __init__(self, weak: frozenset[str]) -> None:
        self._weak = weak
        self._all_weak = bool(weak)
        self._hash = blake2b(digest_size=16)

    def add(self, interval: int, block: Block) -> None:
        """Include a block for an interval."""
        if not self._all_weak:
            return
        if block.stream not in self._weak:
            self._all_weak = False
            return
        # In the order of sending, which differs only if user code goes through keys in another order.
        self._hash.update(repr((interval, block.consumer, block.stream, len(block.key_hashes))).encode())
        self._hash.update(b"".join(block.key_hashes))
        self._hash.update(block.counts.tobytes())

    def of(self, epoch: int, *reported: Mapping[str, object]) -> str:
        """The digest of the blocks and of `reported` (injectors, holds); empty if a production was strong."""
        if not self._all_weak:
            return ""
        digest = self._hash.copy()
        digest.update(repr((epoch, [sorted(each.items(), key=lambda item: item[0]) for each in reported])).encode())
        return "weak " + digest.hexdigest()
