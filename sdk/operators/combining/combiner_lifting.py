"""What: combining before the shuffle, so that one accumulator travels for many elements (combiner lifting)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, cast

from headrace.lowlevel.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.columns import ColumnBatch
from headrace.lowlevel.computation import InlineComputation
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.record import Batch, Emit
from headrace.sdk.arrivals import InputForm
from headrace.sdk.buckets import buckets, starts_of
from headrace.sdk.columns.portions import Portion, portions
from headrace.sdk.columns.reducers import reducers_of
from headrace.sdk.columns.tally import Tally, addends_of, addends_of_pairs
from headrace.sdk.contents import Combiner
from headrace.sdk.frames import Frame, Frames
from headrace.sdk.transforms.marks import Mark, SkippingMarks
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import BoundedWindow, TimestampCombiner

MOST_GROUPS = 100_000
"""Groups kept before they are sent on."""
MOST_ELEMENTS = 100_000
"""Elements kept as columns before they are reduced and sent on."""
MOST_VALUES = 50_000
"""Values kept before they are put into accumulators."""
_VALUES_A_GROUP = 4
"""For fewer it does not pay to call a CombineFn in between."""
_PLAIN_KEYS = frozenset([str, bytes, int, type(None)])
"""Types whose values are equal only if they are the same key; unlike 1, 1.0 and True."""


def liftable(windowing: Windowing, form: InputForm = InputForm.PLAIN) -> bool:
    """Whether elements may be combined before the shuffle with exactly the same panes.

    Not if windows merge, the trigger looks at values, or a pane's timestamp depends on its elements'.
    """
    return (
        not windowing.window_fn.is_merging()
        and not windowing.trigger.needs_values
        and windowing.timestamp_combiner is TimestampCombiner.OUTPUT_AT_EOW
        and (form is InputForm.WINDOWED or buckets(windowing) is not None)
    )


class LiftedCombine(InlineComputation):
    """Combines the elements of each key and window of a bundle; its output is a `Grouping`'s lifted input.

    Values of the input are pairs of key and payload, as `input_form` says.
    """

    def __init__(
        self,
        windowing: Windowing,
        combine: Combiner,
        input_form: InputForm = InputForm.PLAIN,
        output_stream: str = "lifted",
        key_coder: KeyCoder = STANDARD_KEYS,
        step: str = "combine",
    ) -> None:
        if not liftable(windowing, input_form):
            raise ValueError(f"{windowing} cannot be combined before the shuffle; ask liftable() first")
        self._windowing = windowing
        self._combine = combine
        self._output_stream = output_stream
        self._frames = Frames(windowing)
        self._buckets = buckets(windowing) if input_form is InputForm.PLAIN else None
        self._reducers = reducers_of(combine)
        self._skips_marks = isinstance(combine, SkippingMarks)
        self._tally = Tally(self._reducers, self._buckets) if self._reducers and self._buckets else None
        self._groups = _Groups(combine, key_coder, step)

    @property
    def is_pure(self) -> bool:
        """Whether the engine combines in place of the CombineFn."""
        return self._reducers is not None

    def setup(self) -> None:
        """Set the CombineFn up."""
        self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether the CombineFn's does anything."""
        return self._combine.has_teardown()

    def start_bundle(self) -> None:
        """Forget what an abandoned bundle left."""
        self._groups.clear()
        if self._tally is not None:
            self._tally.clear()

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Combine a batch's elements with those of the bundle so far."""
        if not len(batch):
            return
        if not self._add_columns(batch, emit) and not self._add_portions(batch):
            pairs = cast("Sequence[tuple[object, object]]", batch.values)
            if self._buckets is None:
                self._add_windowed(pairs, batch.timestamps)
            else:
                # `zip(*pairs)` would make an iterator for each of them.
                keys, payloads = list(map(itemgetter(0), pairs)), list(map(itemgetter(1), pairs))
                self._groups.add(keys, payloads, starts_of(self._buckets, batch.timestamps), batch.timestamps)
        self._groups.fold()
        if len(self._groups) >= MOST_GROUPS or (self._tally is not None and self._tally.size >= MOST_ELEMENTS):
            self.finish_bundle(emit)

    def finish_bundle(self, emit: Emit) -> None:
        """Send the accumulators on."""
        self._drain_columns(emit)
        values: list[object] = []
        timestamps: list[int] = []
        code_of = self._buckets.code if self._buckets is not None else None
        for key, place, accumulator, count, lost, timestamp in self._groups.drain():
            code = place if code_of is None else code_of(cast(int, place))
            values.append((key, (code, accumulator, count, lost)))
            timestamps.append(timestamp)
        if values:
            emit(self._output_stream, Batch(values, timestamps))

    def _drain_columns(self, emit: Emit) -> None:
        if self._tally is not None and (columns := self._tally.drain()) is not None:
            emit(self._output_stream, columns)

    def _add_columns(self, batch: Batch, emit: Emit) -> bool:
        """Add the elements as columns; False if they are not of that kind."""
        if self._tally is None or self._reducers is None or self._buckets is None:
            return False
        if isinstance(batch, ColumnBatch):
            addends = addends_of(batch, self._reducers)
        else:
            pairs = cast("Sequence[tuple[object, object]]", batch.values)
            if self._skips_marks and Mark in set(map(type, map(itemgetter(1), pairs))):
                return False
            addends = addends_of_pairs(pairs, batch.timestamps, self._reducers)
        if addends is None or not self._buckets.reaches(addends.times):
            return False
        if not self._tally.takes(addends):
            self._drain_columns(emit)
            if not self._tally.takes(addends):
                return False
        self._tally.add(addends)
        return True

    def _add_portions(self, batch: Batch) -> bool:
        """Add the elements of columns, of which only the values are looked at; False if they are not of that kind."""
        if self._buckets is None or not isinstance(batch, ColumnBatch):
            return False
        found = portions(batch, self._buckets)
        for portion in found or ():
            self._groups.put(portion)
        return found is not None

    def _add_windowed(self, pairs: Sequence[tuple[object, object]], timestamps: Sequence[int]) -> None:
        """Add elements to the windows that they carry."""
        payloads = cast("list[tuple[object, Sequence[BoundedWindow], object]]", list(map(itemgetter(1), pairs)))
        if all(len(windows) == 1 for _, windows, _ in payloads):
            codes = self._codes([windows[0] for _, windows, _ in payloads])
            values = [value for value, _, _ in payloads]
            self._groups.add(list(map(itemgetter(0), pairs)), values, codes, timestamps)
        else:
            self._add_to_several(pairs, timestamps)

    def _codes(self, windows: Sequence[BoundedWindow]) -> list[bytes]:
        """The code of each window. Of elements of one batch, equal windows mostly are the same object."""
        distinct = {id(window): window for window in windows}
        codes = {place: self._frames.of_window(window).code for place, window in distinct.items()}
        return [codes[id(window)] for window in windows]

    def _add_to_several(self, pairs: Sequence[tuple[object, object]], timestamps: Sequence[int]) -> None:
        """The same where some carry more than one window, or none."""
        keys: list[object] = []
        codes: list[bytes] = []
        values: list[object] = []
        times: list[int] = []
        for (key, payload), timestamp in zip(pairs, timestamps, strict=True):
            value, windows, _ = cast("tuple[object, Sequence[BoundedWindow], object]", payload)
            frames = sorted(map(self._frames.of_window, windows), key=_closing)
            for frame in frames:
                keys.append(key)
                codes.append(frame.code)
                values.append(value)
                times.append(timestamp)
            for frame in frames[:-1]:
                self._groups.keep(key, frame.code)
        self._groups.add(keys, values, codes, times)


class _Groups:
    """What is combined of each key and place, which is a bucket's start or a window's code."""

    def __init__(self, combine: Combiner, key_coder: KeyCoder, step: str) -> None:
        self._combine = combine
        self._key_coder = key_coder
        self._step = step
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._values: dict[tuple[object, object], list[object]] = {}
        """Those that are not yet in the accumulator."""
        self._size = 0
        """Values that came since the last time all were put into accumulators."""
        self._folded: dict[tuple[object, object], _Folded] = {}
        self._first: dict[tuple[object, object], int] = {}
        self._kept: dict[tuple[object, object], int] = {}
        self._encoded: dict[_Encoded, object] = {}

    def __len__(self) -> int:
        return len(self._first)

    def add(
        self, keys: Sequence[object], values: Sequence[object], places: Sequence[object], timestamps: Sequence[int]
    ) -> None:
        """Add elements."""
        held, first = self._values, self._first
        names = keys if one_to_one(keys) else list(map(self._name, keys))
        self._size += len(values)
        for group, value, timestamp in zip(zip(names, places, strict=True), values, timestamps, strict=True):
            try:
                held[group].append(value)
            except KeyError:
                held[group] = [value]
                first.setdefault(group, timestamp)

    def put(self, portion: Portion) -> None:
        """Add the elements of one key and place."""
        group = (self._name(portion.key), portion.start)
        self._size += len(portion.values)
        self._values.setdefault(group, []).extend(portion.values)
        self._first.setdefault(group, portion.timestamp)

    def keep(self, key: object, place: object) -> None:
        """An element of the group is in a later window too: it is not lost with this one."""
        group = (self._name(key), place)
        self._kept[group] = self._kept.get(group, 0) + 1

    def fold(self) -> None:
        """Put values into accumulators, if there are so many that they take up room and none is looked at for few."""
        if self._size >= max(MOST_VALUES, _VALUES_A_GROUP * len(self._values)):
            self._fold()

    def _fold(self) -> None:
        combine = self._combine
        for group, values in self._values.items():
            known = self._folded.get(group)
            try:
                accumulator, elements = (combine.create_accumulator(), 0) if known is None else known
                self._folded[group] = _Folded(combine.add_inputs(accumulator, values), elements + len(values))
            except Exception as error:
                raise failed_step(error, self._step, self._key(group[0]), _culprit(combine, values)) from error
        self._values = {}
        self._size = 0

    def drain(self) -> Iterator[tuple[object, object, object, int, int, int]]:
        """Key, place, accumulator, number of elements, number lost if the window is closed, the first one's time."""
        self._fold()
        for group, (accumulator, count) in self._folded.items():
            name, place = group
            key = self._key(name)
            lost = count - self._kept.get(group, 0)
            yield key, place, self._combine.compact(accumulator), count, lost, self._first[group]
        self.clear()

    def _name(self, key: object) -> object:
        if one_to_one((key,)):
            return key
        name = _Encoded(self._key_coder.encode(key))
        self._encoded.setdefault(name, key)
        return name

    def _key(self, name: object) -> object:
        return self._encoded[name] if isinstance(name, _Encoded) else name


def _culprit(combine: Combiner, values: Sequence[object]) -> object:
    """The first of some values that cannot be added to nothing either; None if it is not the values."""
    try:
        combine.create_accumulator()
    except Exception:
        return None
    for value in values:
        try:
            combine.add_input(combine.create_accumulator(), value)
        except Exception:
            return value
    return None


class _Folded(NamedTuple):
    """A group's accumulator."""

    accumulator: object
    elements: int
    """How many are in it."""


class _Encoded(NamedTuple):
    """What tells apart keys that Python takes for equal, such as 1 and True."""

    code: bytes


def one_to_one(keys: Sequence[object]) -> bool:
    """Whether keys that are equal are sure to be the same key.

    >>> one_to_one(["a", 1, ("a", 1)]), one_to_one([1, True]), one_to_one([(1,), (True,)])
    (True, False, False)
    """
    kinds = set(map(type, keys))
    if tuple in kinds:
        kinds.discard(tuple)
        kinds.update(map(type, chain.from_iterable(key for key in keys if type(key) is tuple)))
    return kinds <= _PLAIN_KEYS


def _closing(frame: Frame) -> int:
    return frame.closes
