"""A large bundle, portion by portion of its keys: columns become Python values only as they are processed (paper §4.2).

A record takes tens of bytes in columns and hundreds as Python objects, and keys need nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.columnparcel import ColumnParcel
from headrace.lowlevel.parcel import Parcel
from headrace.lowlevel.worker import Bundle, Keys

MOST = 25_000
"""Records that a portion has, if no key of it has more. As Python objects they take some ten megabytes."""
_ROW = np.dtype([("place", ">u8"), ("rest", ">u8")])


def are_worth_portions(parcels: Sequence[Parcel], most: int = MOST) -> bool:
    """Whether the parcels of a bundle are better worked off in portions: many records, some of them in columns."""
    return sum(map(len, parcels)) > most and any(isinstance(parcel, ColumnParcel) for parcel in parcels)


def portions(parcels: Sequence[Parcel], most: int = MOST) -> Iterator[Keys]:
    """All keys of the parcels with their records, about `most` records at a time; a key is in one portion, whole.

    >>> from array import array
    >>> rows, counts = [bytes([number]) * 16 for number in range(3)], array("q", [1, 2, 1])
    >>> parcel = Parcel("step", "in", [b"a", b"b", b"c"], rows, counts, array("q", range(4)), list("abbc"))
    >>> [[(key, part.values) for key, [part] in keys.values()] for keys in portions([parcel], most=2)]
    [[(b'a', ['a'])], [(b'b', ['b', 'b']), (b'c', ['c'])]]
    """
    places = [_places(parcel) for parcel in parcels]
    bounds = _bounds(np.concatenate(places), np.concatenate([parcel.counts for parcel in parcels]), most)
    which = [np.searchsorted(bounds, each, side="right") for each in places]
    for number in range(len(bounds) + 1):
        bundle = Bundle()
        for parcel, its in zip(parcels, which, strict=True):
            picked = np.flatnonzero(its == number)
            if len(picked):
                _of_keys(parcel, picked).unpack(bundle)
        if bundle.keys:
            yield bundle.keys


def _places(parcel: Parcel) -> NDArray[np.uint64]:
    """Where each key lies, by the first half of its row."""
    return np.frombuffer(b"".join(parcel.rows), _ROW)["place"].astype(np.uint64)


def _bounds(places: NDArray[np.uint64], counts: NDArray[np.int64], most: int) -> NDArray[np.uint64]:
    """The places at which portions end, so that each has about so many records."""
    order = places.argsort(kind="stable")
    ends = np.cumsum(counts[order])
    wanted = np.arange(most, int(ends[-1]), most)
    return np.unique(places[order][np.searchsorted(ends, wanted, side="right")])


def _of_keys(parcel: Parcel, picked: NDArray[np.intp]) -> Parcel:
    """What a parcel has of the keys at these places."""
    counts = np.frombuffer(parcel.counts, np.int64)
    ends = np.cumsum(counts)
    sizes = counts[picked]
    # Of each record: where its key's records begin, and the how-manieth of them it is.
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return parcel.selected(picked, np.repeat(ends[picked] - sizes, sizes) + within)
