"""A DoFn of Beam's gives the same in the engine's fused loop as when Beam's own `DoFnRunner` calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate, window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.rules import par_do
from tests.depth import examples

# What user code does with an integer; each puts out integers, so that any follows any.
# The parameters of Beam's are in one order in some and in another elsewhere.


def doubled(number):
    return 2 * number


def plus(number, further, *, least=0):
    return max(number + further, least)


def at_window(number, at=beam.DoFn.WindowParam):
    return number + at.max_timestamp().micros % 7


def later(number, time=beam.DoFn.TimestampParam, pane=beam.DoFn.PaneInfoParam):
    return window.TimestampedValue(number + pane.index, time + 3)


def several(number):
    return [number] * (number % 3)


def perhaps(number, at=beam.DoFn.TimestampParam):
    if number % 2:
        yield number + at.micros % 5
    elif number % 3:
        return None


def placed(number, time=beam.DoFn.TimestampParam):
    yield WindowedValue(number, time + 1, [window.GlobalWindow()])
    yield number


def is_small(number, limit=40):
    return number < limit


def apart(left, right, at=beam.DoFn.WindowParam):
    return left - right


class Counts(beam.DoFn):
    """Outputs of all three kinds, tags, and what waits for the end of the bundle."""

    def __init__(self, every):
        self._every = every

    def setup(self):
        self._known = [1]

    def start_bundle(self):
        self._sum = 0

    def process(self, number, further, at=beam.DoFn.WindowParam):
        self._sum += number + further
        yield beam.pvalue.TaggedOutput("odd", number) if number % self._every else number + len(self._known)

    def finish_bundle(self):
        if self._sum:
            yield WindowedValue(0, Timestamp(1), [window.GlobalWindow()])


class Returns(beam.DoFn):
    """A process that returns, and nothing for some elements."""

    def process(self, number, pane=beam.DoFn.PaneInfoParam):
        return [number, int(pane.timing)] if number % 4 else None


class Sums(beam.DoFn):
    """State and timers of a key; the key is decoded, the timers have tags."""

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    SOON = userstate.TimerSpec("soon", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        time=beam.DoFn.TimestampParam,
        at=beam.DoFn.WindowParam,
        soon=beam.DoFn.TimerParam(SOON),
        bag=beam.DoFn.StateParam(BAG),
    ):
        key, number = pair
        bag.add(number)
        soon.set(min(time + 5, at.max_timestamp()), dynamic_timer_tag=str(number % 3))
        yield number + (key is None)

    @userstate.on_timer(SOON)
    def tell(
        self,
        bag=beam.DoFn.StateParam(BAG),
        tag=beam.DoFn.DynamicTimerTagParam,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
    ):
        yield sum(bag.read()) + int(tag) + (key is None) + time.micros % 7
        bag.clear()


STEPS: dict[str, Callable[[], beam.PTransform]] = {
    "doubled": lambda: beam.Map(doubled),
    "plus": lambda: beam.Map(plus, 3, least=5),
    "at_window": lambda: beam.Map(at_window),
    "later": lambda: beam.Map(later),
    "several": lambda: beam.FlatMap(several),
    "perhaps": lambda: beam.FlatMap(perhaps),
    "placed": lambda: beam.FlatMap(placed),
    "is_small": lambda: beam.Filter(is_small),
    "is_smaller": lambda: beam.Filter(is_small, limit=20),
    "pairs": lambda: _Joined("Pair" >> beam.Map(lambda number: (number, 1)), "Apart" >> beam.MapTuple(apart)),
    "counts": lambda: _Merged(beam.ParDo(Counts(3), 2).with_outputs("odd", main="rest")),
    "untagged": lambda: beam.ParDo(Counts(2), 1),
    "returns": lambda: beam.ParDo(Returns()),
    "sums": lambda: _Joined("Key" >> beam.Map(lambda number: ([None, "k"][number % 2], number)), beam.ParDo(Sums())),
    "windows": lambda: beam.WindowInto(window.FixedWindows(10)),
    "overlapping": lambda: beam.WindowInto(window.SlidingWindows(10, 5)),
}


class _Joined(beam.PTransform):
    """Transforms one after the other."""

    def __init__(self, *parts):
        self._parts = parts

    def expand(self, numbers):
        for part in self._parts:
            numbers = numbers | part
        return numbers


class _Merged(beam.PTransform):
    """All outputs of a transform as one collection."""

    def __init__(self, transform):
        self._transform = transform

    def expand(self, numbers):
        return tuple(numbers | self._transform) | beam.Flatten()


def told(number, file, chain, time=beam.DoFn.TimestampParam, at=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    with open(file, "a", encoding="utf-8") as rows:
        print(chain, number, time, at, pane, file=rows)


Chain = Sequence[str]


def results(chains: Sequence[Chain], elements: Sequence[tuple[int, int]], folder: str) -> list[str]:
    """What chains of steps put out, in any order, with timestamps, windows and panes."""
    path = Path(folder, "rows")
    path.write_text("", encoding="utf-8")
    with beam.Pipeline(runner=HeadraceRunner("LocalRunner")) as pipeline:
        source = pipeline | beam.Create([window.TimestampedValue(*element) for element in elements])
        for number, chain in enumerate(chains):
            numbers = source
            for place, step in enumerate(chain):
                numbers = numbers | f"{number} {place} {step}" >> STEPS[step]()
            _ = numbers | f"Tell {number}" >> beam.Map(told, str(path), number)
    return sorted(path.read_text(encoding="utf-8").splitlines())


def in_both_ways(chains: Sequence[Chain], elements: Sequence[tuple[int, int]]) -> tuple[list[str], list[str]]:
    """What chains put out in the fused loop where that is possible, and what by Beam's `DoFnRunner` throughout."""
    with TemporaryDirectory() as folder:
        fused = results(chains, elements, folder)
        with patch.object(par_do, "direct", lambda fn: None), patch.object(par_do, "is_direct", lambda fn: False):
            return fused, results(chains, elements, folder)


@settings(max_examples=examples(8, 500))
@given(
    st.lists(st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(-3, 30), st.integers(0, 40)), min_size=1, max_size=6),
)
def test_chains(chains: list[Chain], elements: list[tuple[int, int]]) -> None:
    fused, called = in_both_ways(chains, elements)
    assert called == fused


def test_each_step() -> None:
    fused, called = in_both_ways([[step] for step in STEPS], [(number, 7 * number) for number in range(7)])
    assert called == fused
    assert {row.split()[0] for row in fused} == {str(number) for number in range(len(STEPS))}
