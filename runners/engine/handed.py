"""Where records pass from task to task of one process: as columns they need not be made into bytes and back."""

from __future__ import annotations

from headrace.lowlevel.columnparcel import ColumnParcel
from headrace.lowlevel.parcel import Parcel

_MOST_BYTES = 256 << 20


class Handed:
    """Parcels of one attempt at an epoch. What is in them does not change, so both sides may have them.

    >>> from headrace.lowlevel.parcel import Parcel
    >>> Handed().leave(Parcel("consumer", "stream"))
    """

    def __init__(self) -> None:
        self._parcels: list[ColumnParcel] = []

    def leave(self, parcel: Parcel) -> int | None:
        """Leave one here; returns the number to take it by. None for one of Python values, or a very large one."""
        if not isinstance(parcel, ColumnParcel) or parcel.batch.table.nbytes > _MOST_BYTES:
            return None
        self._parcels.append(parcel)
        return len(self._parcels) - 1

    def take(self, number: int) -> Parcel:
        """The parcel of that number."""
        return self._parcels[number]
