"""What: states of several values for each key and window: a bag, a set, and values ordered by timestamp.

Lists in cells are appended to without decoding what is there (MillWheel paper §4.4).

- A bag has its newest values in its first cell, after the number of full cells. If the first cell has grown beyond
  `_FULL` bytes, its values are moved to a full cell. The cost of adding values therefore depends on the added values
  only, and the number of cells stays small.
- A set has a cell for each value, so that adding a value reads no other value.
- An ordered list has a cell for each timestamp, whose name has the timestamp, so that a range of time is read without
  the other values.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, cast

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.coders.coder import Coder, PickleCoder, encode_key
from headrace.lowlevel.errors import KeyEncodingError
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import Timestamp, TimestampTypes
from headrace.sdk.coders.coder import FloatCoder, StrUtf8Coder, VarIntCoder
from headrace.sdk.userstate.state_spec import Cells, State, StateSpec

_LENGTH = 4
"""Bytes for the length of a chunk of a list."""
_OWN: dict[type, type] = {VarIntCoder: int, StrUtf8Coder: str, FloatCoder: float}
"""Coders that decode values of a type to equal values, so that `pickle` may encode them, which takes a tenth of the
time. The output of a coder is bytes, so that decoding distinguishes the two."""
_NUMBER = 8
"""Bytes for the number of full cells of a bag."""
_NONE_FULL = bytes(_NUMBER)
_FULL = 4096
"""Size of the first cell, in bytes, beyond which its values are moved to a full cell."""
_ZERO = 1 << 63
_SIZE = 8
"""Code of the timestamp 0, and bytes for the code of a timestamp."""
_MOST_SCANS = 16
"""Prefixes by which a range of time is read; a range of more is read by their common prefix."""
Stamped = tuple[Timestamp, object]


def chunk(spec: StateSpec[State], values: Sequence[object]) -> bytes:
    """Encode values as one chunk; concatenated chunks encode the concatenation of their values.

    >>> spec = StateSpec.__new__(StateSpec); spec.coder = PickleCoder()
    >>> values_of(spec, chunk(spec, [1, "a"]) + chunk(spec, [2]))
    [1, 'a', 2]
    """
    # One pickle for all values takes a fraction of the time of one for each.
    whole = list(values) if _keeps(spec.coder, values) else _encoded(spec, values)
    try:
        data = dumps(whole)
    except Exception:
        for value in values:
            spec.encode(value)
        raise
    return len(data).to_bytes(_LENGTH, "big") + data


def _keeps(coder: Coder, values: Sequence[object]) -> bool:
    """Whether the coder accepts the values and decodes them to equal values, so that pickle may encode them instead.

    >>> _keeps(VarIntCoder(), [1, 2]), _keeps(VarIntCoder(), [1, True]), _keeps(VarIntCoder(), [1 << 63])
    (True, False, False)
    """
    if type(coder) is PickleCoder:
        return True
    own = _OWN.get(type(coder))
    if own is None or {own} != set(map(type, values)):
        return False
    if own is int:
        try:
            array("q", cast("Sequence[int]", values))
        except OverflowError:
            return False
        return True
    # The coder rejects text with lone surrogates.
    return own is float or all(map(str.isascii, cast("Sequence[str]", values)))


def _encoded(spec: StateSpec[State], values: Sequence[object]) -> list[object]:
    try:
        return list(map(spec.coder.encode, values))
    except Exception:
        # `StateSpec.encode` raises an error with the value and a remedy.
        return [spec.encode(value) for value in values]


def values_of(spec: StateSpec[State], data: bytes) -> list[object]:
    """Decode the values of concatenated chunks, in their order."""
    kind, decode = type(spec.coder), spec.coder.decode
    own = _OWN.get(kind)
    values: list[Any] = []
    if _LENGTH + int.from_bytes(data[:_LENGTH], "big") == len(data):
        # The common case is one chunk.
        values = loads(data[_LENGTH:])
        return values if kind is PickleCoder or type(values[0]) is own else list(map(decode, values))
    at = 0
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        piece = loads(data[start:at])
        values += piece if kind is PickleCoder or type(piece[0]) is own else map(decode, piece)
    return values


def pickles_in(kind: bytes, suffix: bytes, data: bytes) -> list[bytes] | None:
    """The pickles of lists that make up a cell of a bag or an ordered list; None for a cell that is one value.

    Args:
        kind: `kind` of the state.
        suffix: What follows the name of the state in the name of the cell.
        data: Contents of the cell.

    >>> spec = StateSpec.__new__(StateSpec); spec.coder = PickleCoder()
    >>> [loads(each) for each in pickles_in(b"b", b"", bytes(8) + chunk(spec, [1]) + chunk(spec, [2, 3])) or ()]
    [[1], [2, 3]]
    """
    if kind not in (BagStateSpec.kind, OrderedListStateSpec.kind):
        return None
    at, found = 0 if suffix else _NUMBER, []
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        found.append(data[start:at])
    return found


class BagState:
    """A bag of values, in the order in which they were added; storage is not read before `read` is called.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import BagStateSpec
    >>> class Remember(beam.DoFn):
    ...     STATE = BagStateSpec("seen")
    ...
    ...     def process(self, pair, state=beam.DoFn.StateParam(STATE)):
    ...         state.add(pair[1])
    ...         yield state.read()
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3), ("tea", 4)]) | beam.ParDo(Remember()) | beam.Map(print)
    [3]
    [3, 4]
    """

    __slots__ = ("_added", "_cells", "_cleared", "_spec", "_stored")

    def __init__(self, spec: BagStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._stored: list[object] | None = None
        self._added: list[object] = []
        self._cleared = False

    def read(self) -> list[object]:
        """All values, as a new list."""
        if self._stored is None:
            self._stored = self._load()
        return self._stored + self._added

    def add(self, value: object) -> None:
        """Add a value."""
        self._added.append(value)

    def clear(self) -> None:
        """Remove all values."""
        self._stored, self._added = [], []
        self._cleared = True

    def store(self) -> None:
        """See `State`."""
        if not self._cleared and not self._added:
            return
        first = self._spec.cell
        data = self._cells.read(first) or _NONE_FULL
        full = int.from_bytes(data[:_NUMBER], "big")
        if self._cleared:
            for number in range(full):
                self._cells.erase(self._full_cell(number))
            full, data = 0, _NONE_FULL
        if not self._added:
            self._cells.erase(first)
            return
        data += chunk(self._spec, self._added)
        if len(data) > _FULL:
            self._cells.write(self._full_cell(full), data[_NUMBER:])
            data = (full + 1).to_bytes(_NUMBER, "big")
        self._cells.write(first, data)

    def _load(self) -> list[object]:
        first = self._cells.read(self._spec.cell)
        if first is None:
            return []
        if first.startswith(_NONE_FULL):
            return values_of(self._spec, first[_NUMBER:])
        parts = []
        for number in range(int.from_bytes(first[:_NUMBER], "big")):
            part = self._cells.read(self._full_cell(number))
            assert part is not None, f"bag {self._spec.name!r} has a cell {number}"
            parts.append(part)
        return values_of(self._spec, b"".join([*parts, first[_NUMBER:]]))

    def _full_cell(self, number: int) -> bytes:
        return self._spec.cell + number.to_bytes(_NUMBER, "big")


@named("BagStateSpec")
class BagStateSpec(StateSpec[BagState]):
    """Declares a bag of values for each key and window: see `StateSpec`; the coder encodes one value.

    >>> BagStateSpec("waiting")
    BagStateSpec('waiting')
    """

    kind = b"b"

    def open(self, cells: Cells) -> BagState:
        """See `StateSpec`."""
        return BagState(self, cells)


class SetState:
    """A set of values, which are distinct by Python's `==` and `hash`.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import SetStateSpec
    >>> class Remember(beam.DoFn):
    ...     STATE = SetStateSpec("seen")
    ...
    ...     def process(self, pair, state=beam.DoFn.StateParam(STATE)):
    ...         state.add(pair[1])
    ...         yield len(state.read())
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("tea", 3), ("tea", 3)]) | beam.ParDo(Remember()) | beam.Map(print)
    1
    1
    """

    __slots__ = ("_added", "_cells", "_cleared", "_spec", "_stored")

    def __init__(self, spec: SetStateSpec, cells: Cells) -> None:
        self._spec = spec
        self._cells = cells
        self._stored: set[object] | None = None
        self._added: set[object] = set()
        self._cleared = False

    def read(self) -> set[object]:
        """All values, as a new set."""
        if self._stored is None:
            decode = self._spec.coder.decode
            self._stored = {decode(data) for _, data in self._cells.scan(self._spec.cell)}
        return self._stored | self._added

    def add(self, value: object) -> None:
        """Add a value, which must be hashable."""
        self._added.add(value)

    def clear(self) -> None:
        """Remove all values."""
        self._stored, self._added = set(), set()
        self._cleared = True

    def store(self) -> None:
        """See `State`."""
        if self._cleared:
            self._cells.erase_all(self._spec.cell)
        for value in self._added:
            cell = self._cell(value)
            if self._cells.read(cell) is None:
                self._cells.write(cell, self._spec.encode(value))

    def _cell(self, value: object) -> bytes:
        """Name of the cell of a value. Equal values with different cells become one value when they are read."""
        try:
            code = encode_key(value)
        except KeyEncodingError:
            code = self._spec.encode(value)
        return self._spec.cell + blake2b(code, digest_size=16).digest()


@named("SetStateSpec")
class SetStateSpec(StateSpec[SetState]):
    """Declares a set of values for each key and window: see `StateSpec`; the coder encodes one value.

    >>> SetStateSpec("seen")
    SetStateSpec('seen')
    """

    kind = b"s"

    def open(self, cells: Cells) -> SetState:
        """See `StateSpec`."""
        return SetState(self, cells)


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
