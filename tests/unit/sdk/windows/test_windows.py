"""Windows and window functions by example, and against Beam's."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from datetime import timedelta

import pytest

from headrace import Create, Map, Pipeline, WindowInto
from headrace.lowlevel.time import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND, Duration, Timestamp
from headrace.sdk.model.special_outputs import TimestampedValue
from headrace.sdk.operators.grouping.merging import MergeError, merge_windows
from headrace.sdk.windows import (
    AssignContext,
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindowCoder,
    GlobalWindows,
    IntervalWindow,
    IntervalWindowCoder,
    MergeContext,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

TIMES = [0, 1, 59, 60, 61, 119.999999, -1, -60, -60.000001, 3600, 1e9]


def micros(seconds: float) -> int:
    return round(seconds * SECOND)


def test_interval_windows_are_values() -> None:
    window = IntervalWindow(1, 2.5)
    assert window == IntervalWindow(Timestamp(1), Timestamp(2.5)) != IntervalWindow(1, 2)
    assert len({window, IntervalWindow(1, 2.5)}) == 1
    assert window.start == 1 and window.end == 2.5 and window.max_timestamp() == Timestamp(micros=2_499_999)
    assert sorted([IntervalWindow(0, 9), IntervalWindow(3, 5), IntervalWindow(1, 5)]) == [
        IntervalWindow(1, 5),
        IntervalWindow(3, 5),
        IntervalWindow(0, 9),
    ]
    assert repr(window) == "[1.0, 2.5)"
    assert window.union(IntervalWindow(5, 6)) == IntervalWindow(1, 6)
    with pytest.raises(AttributeError):
        window.start_us = 3


@pytest.mark.parametrize("window", [IntervalWindow(-1, 2), GlobalWindow()])
def test_windows_survive_pickling(window: BoundedWindow) -> None:
    assert pickle.loads(pickle.dumps(window)) == window


def test_the_global_window_is_one_object() -> None:
    assert GlobalWindow() is pickle.loads(pickle.dumps(GlobalWindow()))
    assert GlobalWindow().end.micros == END_OF_GLOBAL_WINDOW == GlobalWindow().max_timestamp().micros + 1


def test_windows_end_with_time() -> None:
    (first,) = FixedWindows(60).assign_all([MIN_TIMESTAMP], [None])[0]
    assert isinstance(first, IntervalWindow) and first.start_us == MIN_TIMESTAMP
    (last,) = FixedWindows(60).assign_all([MAX_TIMESTAMP - 1], [None])[0]
    assert last.end_us == MAX_TIMESTAMP


@pytest.mark.parametrize(
    "window_fn",
    [FixedWindows(60), FixedWindows(60, 15), SlidingWindows(60, 15, 5), Sessions(1.5), GlobalWindows()],
    ids=repr,
)
def test_window_functions_are_values(window_fn: WindowFn) -> None:
    copy = pickle.loads(pickle.dumps(window_fn))
    assert copy == window_fn and hash(copy) == hash(window_fn)
    assert copy.assign_all([7_000_000], [None]) == window_fn.assign_all([7_000_000], [None])
    assert window_fn != FixedWindows(61)


class Named(FixedWindows):
    """A window function of the user's own that is also another's."""

    def __init__(self, size: float, name: str) -> None:
        super().__init__(size)
        self.name = name


def test_subclasses_stay_what_they_are_on_their_way_to_the_workers() -> None:
    copy = pickle.loads(pickle.dumps(Named(60, "minute")))
    assert type(copy) is Named and copy.name == "minute" and copy == Named(60, "minute") != FixedWindows(60)
    window_fn = FixedWindows(60)
    before = len(pickle.dumps(window_fn))
    window_fn.assign_all(range(0, 10**9, 10**6), [None] * 1000)
    assert len(pickle.dumps(window_fn)) == before, "windows that were made do not travel"


def test_one_element_is_assigned_as_many_are() -> None:
    for window_fn in (FixedWindows(60, 7), SlidingWindows(60, 15), Sessions(5), GlobalWindows()):
        for time in TIMES:
            alone = tuple(window_fn.assign(AssignContext(Timestamp(time))))
            assert window_fn.assign_all([micros(time)], [None]) == [alone]


def test_fixed_windows_are_made_once() -> None:
    window_fn = FixedWindows(60)
    first, second = window_fn.assign_all([1, 2], [None, None])
    assert first[0] is second[0] is window_fn.assign_all([3], [None])[0][0]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: FixedWindows(0), "FixedWindows: size is 0 s"),
        (lambda: SlidingWindows(10, -1), "SlidingWindows: period is -1 s"),
        (lambda: Sessions(Duration(0)), "Sessions: gap_size is 0 s"),
        (
            lambda: FixedWindows("60"),
            "cannot interpret '60' of type str as a Duration",
        ),
    ],
)
def test_wrong_sizes_are_refused(make: object, complaint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=complaint):
        make()


def test_bytes_tell_windows_apart_and_order_them_by_start() -> None:
    coder = IntervalWindowCoder()
    windows = [IntervalWindow(start, start + length) for start in (-5, -1, 0, 3) for length in (1, 7)]
    codes = [coder.encode(window) for window in windows]
    assert [coder.decode(code) for code in codes] == windows
    assert codes == sorted(codes) and set(map(len, codes)) == {16}
    assert GlobalWindowCoder().encode(GlobalWindow()) == b""
    with pytest.raises(TypeError, match="give the window function a get_window_coder"):
        coder.encode(GlobalWindow())


class Parity(BoundedWindow):
    """A window of the user's own: even or odd seconds."""

    def __init__(self, odd: bool) -> None:
        super().__init__(1_000_000)
        self.odd = odd


class ParityCoder:
    def encode(self, value: object) -> bytes:
        assert isinstance(value, Parity)
        return b"1" if value.odd else b"0"

    def decode(self, data: bytes) -> Parity:
        return Parity(data == b"1")

    def is_deterministic(self) -> bool:
        return True


class Parities(NonMergingWindowFn):
    def assign(self, context: AssignContext) -> list[BoundedWindow]:
        assert context.element is not None
        return [Parity(context.timestamp.seconds() % 2 == 1)]

    def get_window_coder(self) -> ParityCoder:
        return ParityCoder()


@pytest.mark.parametrize("assigned", [IntervalWindow(0, 1), None, [3], "ab"])
def test_what_is_no_list_of_windows_is_refused(assigned: object) -> None:
    class Wrong(NonMergingWindowFn):
        def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
            return assigned

    with pytest.raises(TypeError, match=r"Wrong.assign returned .*; return a list of windows, each a BoundedWindow"):
        Wrong().assign_all([1], ["a"])


@pytest.mark.parametrize("steps", [[], [Map(lambda number: TimestampedValue(number, 3))]], ids=["assigned", "moved"])
def test_a_window_function_is_asked_even_if_nothing_reads_the_elements(steps: list[Map]) -> None:
    class Fails(NonMergingWindowFn):
        def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
            # Elements are assigned windows once by WindowInto, and once more where a step moves them.
            if context.timestamp == 3 or not steps:
                raise ValueError("asked")
            return [GlobalWindow()]

        def get_window_coder(self) -> GlobalWindowCoder:
            return GlobalWindowCoder()

    with pytest.raises(ValueError, match="asked"), Pipeline("LocalRunner") as pipeline:
        collection = pipeline | Create([1]) | WindowInto(Fails())
        for step in steps:
            collection = collection | step


def test_frames_of_windows_of_ones_own() -> None:
    frames = WindowNamespaces(Windowing(Parities()))
    frame = frames.of_window(Parity(True))
    assert frames.of_tag(frame.tag) is frames.of_code(frame.code) is frame
    assert frame.end == 1_000_000 * SECOND
    assert [window.odd for (window,) in Parities().assign_all([1_000_000, 2_000_000], "ab")] == [True, False]


@pytest.mark.parametrize("window", [IntervalWindow(-3, 7), GlobalWindow()])
def test_frames_are_found_by_code_and_tag(window: BoundedWindow) -> None:
    frames = WindowNamespaces(Windowing(FixedWindows(10) if isinstance(window, IntervalWindow) else GlobalWindows()))
    frame = frames.of_window(window)
    for other in (frames, pickle.loads(pickle.dumps(frames))):
        assert other.of_code(frame.code) == other.of_tag(frame.tag) == frame
    assert frame.window == window and frame.end == window.end_us


class Merging(WindowFn):
    """Merges as it is told."""

    def __init__(self, *groups: tuple[list[int], BoundedWindow]) -> None:
        self.groups = groups

    def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
        return [IntervalWindow(context.timestamp, context.timestamp + 10)]

    def merge(self, merge_context: MergeContext) -> None:
        for indexes, result in self.groups:
            merge_context.merge([merge_context.windows[index] for index in indexes], result)


def merge(window_fn: WindowFn, *windows: IntervalWindow) -> dict[BoundedWindow, list[BoundedWindow]]:
    frames = WindowNamespaces(Windowing(window_fn))
    merged = merge_windows(window_fn, frames, [frames.of_window(window) for window in windows])
    return {one.namespace.window: [part.window for part in one.parts] for one in merged}


A, B, C = IntervalWindow(0, 10), IntervalWindow(5, 15), IntervalWindow(50, 60)


def test_a_window_function_of_ones_own_merges() -> None:
    union = IntervalWindow(0, 15)
    assert merge(Merging(([0, 1], union)), A, B, C) == {C: [C], union: [A, B]}
    assert merge(Merging(([0, 1], A)), A, B) == {A: [A, B]}
    assert merge(Merging(), A, B) == {A: [A], B: [B]}


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        ([([0, 1], IntervalWindow(0, 15)), ([1, 2], IntervalWindow(0, 60))], "merged before"),
        ([([0, 1], C)], "stays a window of its own"),
    ],
)
def test_merges_that_do_not_fit_are_refused(groups: list[tuple[list[int], BoundedWindow]], complaint: str) -> None:
    with pytest.raises(MergeError, match=complaint):
        merge(Merging(*groups), A, B, C)


def test_sessions_merge_as_their_window_function_says() -> None:
    windows = [IntervalWindow(start, start + 10) for start in (40, 0, 5, 15, 25, 61)]
    merged = merge(Sessions(10), *windows)

    class Same(WindowFn):
        assign = Sessions(10).assign
        merge = Sessions(10).merge

    assert merged == merge(Same(), *windows)
    assert set(merged) == {IntervalWindow(0, 15), IntervalWindow(15, 25), *windows[4:], windows[0]}


def test_timestamped_values_compare_by_value_first() -> None:
    assert TimestampedValue("a", 1) == TimestampedValue("a", Timestamp(1)) != TimestampedValue("a", 2)
    assert TimestampedValue("a", 2) < TimestampedValue("b", 1)


@pytest.mark.parity
def test_windows_are_beams() -> None:
    beam = pytest.importorskip("apache_beam.transforms.window")
    pairs = [
        (FixedWindows(60), beam.FixedWindows(60)),
        (FixedWindows(60, 75), beam.FixedWindows(60, 75)),
        (FixedWindows(0.5, -0.2), beam.FixedWindows(0.5, -0.2)),
        (SlidingWindows(60, 15), beam.SlidingWindows(60, 15)),
        (SlidingWindows(5, 3, 1), beam.SlidingWindows(5, 3, 1)),
        (SlidingWindows(5, 13), beam.SlidingWindows(5, 13)),
        (Sessions(7.5), beam.Sessions(7.5)),
    ]
    for ours, theirs in pairs:
        for time in TIMES:
            windows = ours.assign_all([micros(time)], [None])[0]
            expected = theirs.assign(beam.WindowFn.AssignContext(time))
            assert [(w.start_us, w.end_us) for w in windows] == [(w.start.micros, w.end.micros) for w in expected]
    assert repr(IntervalWindow(1, 2.5)) == repr(beam.IntervalWindow(1, 2.5))
    assert repr(GlobalWindow()) == repr(beam.GlobalWindow())
    assert GlobalWindow().end.micros == beam.GlobalWindow().end.micros
    assert GlobalWindow().max_timestamp().micros == beam.GlobalWindow().max_timestamp().micros


def test_lengths_may_be_timedeltas() -> None:
    minute = timedelta(minutes=1)
    assert FixedWindows(minute) == FixedWindows(60) == FixedWindows(Duration(60))
    assert FixedWindows(timedelta(hours=1), minute) == FixedWindows(3600, 60)
    assert SlidingWindows(minute, timedelta(seconds=30), timedelta(seconds=-5)) == SlidingWindows(60, 30, -5)
    assert Sessions(minute) == Sessions(60)
    assert Windowing.of(FixedWindows(60), allowed_lateness=minute).allowed_lateness_us == 60_000_000
    for endless in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"a Duration of (inf|nan) s .* is not finite"):
            FixedWindows(endless)


def test_a_timestamped_value_of_a_stated_type_is_one() -> None:
    made = TimestampedValue[str]("a", 5)
    assert made == TimestampedValue("a", 5) and pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(AttributeError):
        made.value = "b"  # type: ignore[misc]  # a write that must fail
    assert not hasattr(made, "__dict__")
