"""What: values ordered by timestamp for each key and window (`OrderedListStateSpec`).

Each timestamp has a cell, whose name has the timestamp, so that a range of time is read without the other values.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp, TimestampTypes
from headrace.sdk.userstate.list_encoding import chunk, values_of
from headrace.sdk.userstate.state_spec import Cells, StateSpec

_ZERO = 1 << 63
_SIZE = 8
_MOST_SCANS = 16
Stamped = tuple[Timestamp, object]


class OrderedListState:
    """Values ordered by timestamp; values with the same timestamp are in the order in which they were added.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import OrderedListStateSpec
    >>> class Remember(beam.DoFn):
    ...     STATE = OrderedListStateSpec("history")
    ...
    ...     def process(self, pair, state=beam.DoFn.StateParam(STATE)):
    ...         state.add((pair[1], "sold"))
    ...         yield [timestamp.seconds() for timestamp, _ in state.read()]
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 30), ("tea", 10)]) | beam.ParDo(Remember()) | beam.Map(print)
    [30]
    [10, 30]
    """

    __slots__ = ("_added", "_cells", "_spec")

    def __init__(self, spec: OrderedListStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._added: dict[int, list[object]] = {}

    def add(self, element: tuple[TimestampTypes, object]) -> None:
        """Add a pair of timestamp (seconds since 1970 UTC, or a `Timestamp`) and value.

        Raises TypeError if `element` is not such a pair.
        """
        try:
            timestamp, value = element
            micros = Timestamp.of(timestamp).micros
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"ordered list {self._spec.name!r} takes pairs (timestamp, value), got {element!r:.200}: {error}"
            ) from None
        self._added.setdefault(micros, []).append(value)

    def read(self) -> list[Stamped]:
        """All pairs, ordered by timestamp."""
        return self._pairs(self._cells.scan(self._spec.cell), self._added)

    def read_range(self, min_timestamp: TimestampTypes, limit_timestamp: TimestampTypes) -> list[Stamped]:
        """The pairs from `min_timestamp` up to but without `limit_timestamp`, ordered by timestamp."""
        first, limit = Timestamp.of(min_timestamp).micros, Timestamp.of(limit_timestamp).micros
        added = {micros: values for micros, values in self._added.items() if first <= micros < limit}
        return self._pairs(self._between(first, limit), added)

    def clear(self) -> None:
        """Remove all pairs."""
        self._added = {}
        self._cells.erase_all(self._spec.cell)

    def clear_range(self, min_timestamp: TimestampTypes, limit_timestamp: TimestampTypes) -> None:
        """Remove the pairs from `min_timestamp` up to but without `limit_timestamp`."""
        first, limit = Timestamp.of(min_timestamp).micros, Timestamp.of(limit_timestamp).micros
        self._added = {micros: values for micros, values in self._added.items() if not first <= micros < limit}
        for name, _ in list(self._between(first, limit)):
            self._cells.erase(name)

    def store(self) -> None:
        """See `State`."""
        for micros, values in self._added.items():
            name = self._spec.cell + _code(micros)
            self._cells.write(name, (self._cells.read(name) or b"") + chunk(self._spec, values))

    def _pairs(self, stored: Iterator[tuple[bytes, bytes]], added: dict[int, list[object]]) -> list[Stamped]:
        by_time = {_micros(name[-_SIZE:]): values_of(self._spec, data) for name, data in stored}
        for micros, values in added.items():
            by_time[micros] = by_time.get(micros, []) + values
        return [(Timestamp(micros=micros), value) for micros in sorted(by_time) for value in by_time[micros]]

    def _between(self, first: int, limit: int) -> Iterator[tuple[bytes, bytes]]:
        """Stored cells of a stretch of time, by name."""
        if first >= limit:
            return
        least, last = _code(first), _code(limit - 1)
        for prefix in _prefixes(least, last):
            for name, data in self._cells.scan(self._spec.cell + prefix):
                if least <= name[-_SIZE:] <= last:
                    yield name, data


def _code(micros: int) -> bytes:
    """Eight bytes for a timestamp in microseconds; codes have the order of their timestamps."""
    return min(max(micros + _ZERO, 0), 2 * _ZERO - 1).to_bytes(_SIZE, "big")


def _micros(code: bytes) -> int:
    return int.from_bytes(code, "big") - _ZERO


def _prefixes(least: bytes, last: bytes) -> list[bytes]:
    """Prefixes, ascending, that cover all names from `least` to `last`: few, and with few other names.

    >>> _prefixes(b"ab1", b"ac2"), _prefixes(b"aa", b"aa"), _prefixes(b"aA1", b"aZ2")
    ([b'ab', b'ac'], [b'aa'], [b'a'])
    """
    same = next((at for at in range(len(least)) if least[at] != last[at]), len(least))
    if same == len(least) or last[same] - least[same] >= _MOST_SCANS:
        return [least[:same]]
    return [least[:same] + bytes([byte]) for byte in range(least[same], last[same] + 1)]


@named("OrderedListStateSpec")
class OrderedListStateSpec(StateSpec[OrderedListState]):
    """Declares values ordered by timestamp for each key and window: see `StateSpec`; the coder encodes one value.

    >>> OrderedListStateSpec("history")
    OrderedListStateSpec('history')
    """

    kind = b"o"

    def open(self, cells: Cells) -> OrderedListState:
        """See `StateSpec`."""
        return OrderedListState(self, cells)
