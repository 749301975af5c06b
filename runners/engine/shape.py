"""The shape of what an attempt sent: which attempts of a weak producer may stand for each other (paper §6.1.3).

Consumers of which some took the productions of one attempt and some those of another have, together, everything once,
if both attempts sent as much to the same keys and told the same of watermarks. What the values are does not matter:
that is what weak productions mean. Where attempts differ in more, a mixture could lose records, and is not let pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from headrace.lowlevel.parcel import Parcel


class Shape:
    """Gathers the shape of one attempt; costs nothing where no stream is weak.

    >>> from array import array
    >>> def shape(*streams):
    ...     made = Shape(frozenset(["weak"]))
    ...     for stream in streams:
    ...         made.add(0, Parcel("count", stream, rows=[b"row"], counts=array("q", [2])))
    ...     return made.of(1, {}, {})
    >>> shape("weak") == shape("weak"), shape("weak") == shape("weak", "weak"), shape("weak", "strong")
    (True, False, '')
    """

    def __init__(self, weak: frozenset[str]) -> None:
        self._weak = weak
        self._all_weak = bool(weak)
        self._sent = blake2b(digest_size=16)

    def add(self, interval: int, parcel: Parcel) -> None:
        """Note what goes to an interval."""
        if not self._all_weak:
            return
        if parcel.stream not in self._weak:
            self._all_weak = False
            return
        # In the order in which it was sent, which differs only where user code goes through keys in another order.
        self._sent.update(repr((interval, parcel.consumer, parcel.stream, len(parcel.rows))).encode())
        self._sent.update(b"".join(parcel.rows))
        self._sent.update(parcel.counts.tobytes())

    def of(self, epoch: int, *told: Mapping[str, object]) -> str:
        """The shape, of what was sent and of what is told of injectors and holds; empty if anything was strong."""
        if not self._all_weak:
            return ""
        shape = self._sent.copy()
        shape.update(repr((epoch, [sorted(each.items(), key=lambda item: item[0]) for each in told])).encode())
        return "weak " + shape.hexdigest()
