"""Keys and values of the tables of a state store in LMDB (paper §4.4: state in an ordered store).

Every table is ordered by its key, so the layout is the index: a key's cells lie side by side by name, and the marks of
a domain lie in order of time. LMDB keys have at most 511 bytes. A longer one keeps its first 495 bytes, a hash stands
for the rest, and the full name is in the value; a key of exactly 511 bytes always stands for a longer name.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.lowlevel.state.state_store import Mark, MarkColumns

LAYOUT_VERSION = 3
"""Version of this module's encoding. A store of another version is made again from the checkpoint."""
_MAX_KEY = 511
_DIGEST_SIZE = 16
ORDER_DOUBTFUL_FROM = _MAX_KEY - _DIGEST_SIZE
"""From this length of key on, byte order may differ from the order of the full names."""
LONGEST_PLAIN = ORDER_DOUBTFUL_FROM - 17
"""Names up to this length are their own keys in every table."""

_MARK = struct.Struct(">16sB")
_TIME = struct.Struct(">Q")
_ORDER = struct.Struct(">BQ16s")
_NAME_SIZE = struct.Struct(">I")
_TIME_BIAS = 1 << 63
_DOMAINS = tuple(bytes([domain]) for domain in range(256))
_TAG_FROM = _ORDER.size + 1
"""Where the tag begins in an `order_name`."""
Times = NDArray[np.int64]
"""Timestamps in microseconds UTC."""
_FEW_EQUAL = 4
"""Average length of a run of equal timestamps from which on they share one object."""
_LAST_TIME = _TIME_BIAS - 1


def key_of_name(name: bytes) -> bytes:
    """The key of a name: itself, or a prefix and a hash if it is too long.

    >>> key_of_name(b"short"), len(key_of_name(b"x" * 511)), key_of_name(b"x" * 600) == key_of_name(b"x" * 601)
    (b'short', 511, False)
    """
    if len(name) < _MAX_KEY:
        return name
    return name[:ORDER_DOUBTFUL_FROM] + blake2b(name, digest_size=_DIGEST_SIZE).digest()


def is_cut(key: bytes) -> bool:
    """Whether the key stands for a longer name."""
    return len(key) == _MAX_KEY


def key_and_value(name: bytes, contents: bytes) -> tuple[bytes, bytes]:
    """Key and value of an entry.

    >>> content_of(*key_and_value(b"n" * 1000, b"contents")) == (b"n" * 1000, b"contents")
    True
    """
    key = key_of_name(name)
    return (key, _NAME_SIZE.pack(len(name)) + name + contents) if is_cut(key) else (key, contents)


def content_of(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Name and contents of an entry that `key_and_value` made."""
    if not is_cut(key):
        return key, value
    end = _NAME_SIZE.size + _NAME_SIZE.unpack_from(value)[0]
    return value[_NAME_SIZE.size : end], value[end:]


def mark_name(key_hash: bytes, domain: int, tag: str) -> bytes:
    """Name of an entry in the table of marks, ordered by key hash."""
    return key_hash + _DOMAINS[domain] + tag.encode("utf-8", "surrogatepass")


def order_name(mark: bytes, time: bytes) -> bytes:
    """Name of an entry in the table by (domain, timestamp, key hash, tag), from `mark_name` and `time_bytes`."""
    return mark[16:17] + time + mark


def mark_of(order_name: bytes) -> Mark:
    """The mark that an `order_name` stands for.

    >>> mark_of(order_name(mark_name(b"r" * 16, 2, "tag"), time_bytes(-5)))
    Mark(timestamp=-5, key_hash=b'rrrrrrrrrrrrrrrr', tag='tag')
    """
    _, biased, key_hash = _ORDER.unpack_from(order_name)
    return Mark(biased - _TIME_BIAS, key_hash, str(order_name[_TAG_FROM:], "utf-8", "surrogatepass"))


class _Tags(dict[bytes, str]):
    """Tags by their bytes, decoded once each."""

    def __missing__(self, data: bytes) -> str:
        tag = self[data] = str(data, "utf-8", "surrogatepass")
        return tag


def columns_of(order_names: Sequence[bytes]) -> MarkColumns:
    """The `mark_of` each name, as columns of equal length, in the same order."""
    times = np.frombuffer(b"".join([name[1:9] for name in order_names]), ">u8").astype(np.uint64)
    timestamps = _shared((times ^ np.uint64(_TIME_BIAS)).view(np.int64))
    key_hashes = [name[9:25] for name in order_names]
    tags = _Tags()
    return MarkColumns(timestamps, key_hashes, [tags[name[_TAG_FROM:]] for name in order_names])


def _shared(timestamps: Times) -> list[int]:
    """The timestamps as a list; if many neighbours are equal, they share one int, as the list may live for long.

    >>> same = _shared(np.array([1 << 40] * 10))
    >>> same == [1 << 40] * 10, same[0] is same[9]
    (True, True)
    """
    edges = np.flatnonzero(np.diff(timestamps)) + 1
    if _FEW_EQUAL * len(edges) >= len(timestamps):
        separate: list[int] = timestamps.tolist()
        return separate
    shared: list[int] = []
    for start, stop in pairwise([0, *edges.tolist(), len(timestamps)]):
        shared += [int(timestamps[start])] * (stop - start)
    return shared


def entry_of(mark_name: bytes, time: bytes) -> tuple[tuple[bytes, int, str], int]:
    """((key hash, domain, tag), timestamp) of an entry in the table of marks."""
    key_hash, domain = _MARK.unpack_from(mark_name)
    return (key_hash, domain, str(mark_name[17:], "utf-8", "surrogatepass")), timestamp_of(time)


def order_end(domain: int, limit: int) -> bytes:
    """The least key that is greater than those of all marks of a domain with a timestamp of at most `limit`."""
    return bytes([domain + 1]) if limit >= _LAST_TIME else bytes([domain]) + time_bytes(limit + 1)


def time_bytes(timestamp: int) -> bytes:
    """A timestamp as 8 bytes that sort as the timestamps do."""
    return _TIME.pack(timestamp + _TIME_BIAS)


def times_bytes(timestamps: Times) -> list[bytes]:
    """The `time_bytes` of each timestamp, in the same order.

    >>> times_bytes(np.array([-5, 3])) == [time_bytes(-5), time_bytes(3)]
    True
    """
    times = (timestamps.view(np.uint64) ^ np.uint64(_TIME_BIAS)).astype(">u8").tobytes()
    return [times[start : start + 8] for start in range(0, len(times), 8)]


def timestamp_of(time: bytes) -> int:
    """The timestamp of `time_bytes`.

    >>> timestamp_of(time_bytes(-5)), time_bytes(-5) < time_bytes(3)
    (-5, True)
    """
    biased: int = _TIME.unpack(time)[0]
    return biased - _TIME_BIAS


def age_name(record_id: bytes, timestamp: int) -> bytes:
    """Name of an entry in the table of ids ordered by time."""
    return time_bytes(timestamp) + record_id


def age_of(age_name: bytes) -> tuple[int, bytes]:
    """Timestamp and record id of an `age_name`."""
    return timestamp_of(age_name[:8]), age_name[8:]
