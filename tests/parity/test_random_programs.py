"""Random elements, disorder, bundles, watermarks and clocks under random windows and triggers, compared with Beam."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import Phase, assume, given, note, settings
from hypothesis import strategies as st

from headrace.runners.local import LocalRunner
from tests.parity.canonical import Element
from tests.parity.comparison import differences
from tests.parity.corpus import Program, timed
from tests.parity.watching import UNSAFE, Clock, stream
from tests.parity.worlds import Beam, Headrace

pytestmark = pytest.mark.parity

KEYS = st.sampled_from("ab")
PAIRS = st.tuples(KEYS, st.integers(-100, 100))


def check(program: Program, known=lambda theirs: False) -> list[Element]:
    """Compare, unless what Beam puts out shows a known departure; all that Headrace puts out."""
    theirs = Beam().run([program])[program.name]
    assume(not any(map(known, theirs.values())))
    ours = Headrace(LocalRunner).run([program])[program.name]
    assert differences(program, theirs, ours) == []
    return [element for elements in ours.values() for element in elements]


# Eighths are whole milliseconds, which is what Beam's protos carry, and exact as floats.
SECONDS = st.integers(-240, 480).map(lambda eighths: eighths / 8)


@settings(max_examples=12)
@given(
    st.lists(st.tuples(PAIRS, SECONDS), max_size=60),
    st.integers(1, 20),
    st.integers(0, 19),
    st.integers(1, 4),
    st.sampled_from(["OUTPUT_AT_EOW", "OUTPUT_AT_EARLIEST", "OUTPUT_AT_LATEST"]),
)
def test_bounded_sums_in_random_windows(values, size, offset, periods, combiner):
    def build(beam, p):
        pairs = timed(beam, p, values)
        windows = {
            "fixed": beam.window.FixedWindows(size, offset=offset),
            "sliding": beam.window.SlidingWindows(size * periods, size, offset=offset),
            "sessions": beam.window.Sessions(size),
        }
        when = getattr(beam.window.TimestampCombiner, combiner)
        return {
            name: pairs
            | f"W {name}" >> beam.WindowInto(window, timestamp_combiner=when)
            | name >> beam.CombinePerKey(sum)
            for name, window in windows.items()
        }

    check(Program("random", build))


# Half seconds, where no window ends: just there Beam's runner still takes elements.
EVENTS = st.one_of(
    st.lists(st.tuples(PAIRS, st.integers(0, 40)), min_size=1, max_size=4),
    st.integers(1, 20).map(float),
    st.integers(1, 15).map(Clock),
)
TRIGGERS = {
    "default": lambda trigger: trigger.DefaultTrigger(),
    "end": lambda trigger: trigger.AfterWatermark(),
    "early": lambda trigger: trigger.AfterWatermark(early=trigger.AfterCount(2)),
    "late": lambda trigger: trigger.AfterWatermark(late=trigger.AfterCount(1)),
    "both": lambda trigger: trigger.AfterWatermark(early=trigger.AfterCount(3), late=trigger.AfterCount(1)),
    "clock": lambda trigger: trigger.AfterWatermark(early=trigger.AfterProcessingTime(10), late=trigger.AfterCount(1)),
    "counts": lambda trigger: trigger.Repeatedly(trigger.AfterCount(1)),
    "each": lambda trigger: trigger.AfterWatermark(early=trigger.AfterCount(1)),
}
WINDOWS = {
    "fixed": lambda window: window.FixedWindows(10),
    "offset": lambda window: window.FixedWindows(10, offset=3),
    "sliding": lambda window: window.SlidingWindows(10, 5),
}


@st.composite
def streams(draw, name="random"):
    """Programs that group a random stream in random windows under a random trigger."""
    events = draw(st.lists(EVENTS, max_size=12))
    window, trigger = draw(st.sampled_from(sorted(WINDOWS))), draw(st.sampled_from(sorted(TRIGGERS)))
    mode, lateness = draw(st.sampled_from(["DISCARDING", "ACCUMULATING"])), draw(st.sampled_from([0, 7, 100]))

    def build(beam, p):
        windowed = stream(beam, p, *script(events)) | beam.WindowInto(
            WINDOWS[window](beam.window),
            trigger=TRIGGERS[trigger](beam.trigger),
            accumulation_mode=getattr(beam.trigger.AccumulationMode, mode),
            allowed_lateness=lateness,
        )
        return windowed | beam.GroupByKey()

    note(f"{events} in {window} windows, trigger {trigger}, {mode}, lateness {lateness}")
    return Program(name, build, streaming=True, flags=UNSAFE, alone=any(isinstance(e, Clock) for e in events))


@settings(max_examples=25)
@given(streams())
def test_random_streams(program):
    assert_numbered(check(program))


# One pipeline of several programs is what costs; to shrink it would take minutes, and a program that fails can be
# put into the corpus.
@pytest.mark.spark
@settings(max_examples=2, phases=[Phase.generate])
@given(st.tuples(*(streams(f"random{number}") for number in range(8))))
def test_random_streams_on_spark(spark, programs):
    from headrace.runners.spark import SparkRunner

    programs = [program for program in programs if not program.alone]
    assume(programs)
    local, on_spark = Headrace(LocalRunner), Headrace(lambda: SparkRunner(spark, intervals=2))
    assert on_spark.run(programs) == local.run(programs)


@settings(max_examples=12)
@given(
    st.lists(EVENTS, max_size=12),
    st.integers(2, 15),
    st.sampled_from(["default", "early", "each", "clock"]),
    st.sampled_from(["DISCARDING", "ACCUMULATING"]),
)
def test_random_sessions(events, gap, trigger, mode):
    """Without lateness, as Beam's runner calls panes EARLY again where late sessions merge with new data.

    It does not forget closed sessions either. Where that shows, panes of a key are in windows that overlap, though no
    later one has grown out of the earlier.
    """

    def build(beam, p):
        return (
            stream(beam, p, *script(events))
            | beam.WindowInto(
                beam.window.Sessions(gap),
                trigger=TRIGGERS[trigger](beam.trigger),
                accumulation_mode=getattr(beam.trigger.AccumulationMode, mode),
            )
            | beam.GroupByKey()
        )

    note(f"{events}, gap {gap}, trigger {trigger}, {mode}")
    alone = any(isinstance(event, Clock) for event in events)
    program = Program("random", build, streaming=True, flags=UNSAFE, alone=alone)
    assert_numbered(check(program, known=touching_a_closed_one))


def script(events):
    """The events with the watermark's steps added up."""
    second = 0.5
    yield second
    for event in events:
        if isinstance(event, float):
            second += event
            event = second
        yield event


def touching_a_closed_one(panes: list[Element]) -> bool:
    """Whether a session of a key has grown out of one that was closed before, by the panes that were not early."""
    return overlapping([pane for pane in panes if pane.pane.timing != "EARLY"])


def overlapping(panes: list[Element]) -> bool:
    """Whether any two panes of a key are in different windows that overlap."""
    places = sorted({(_key(pane), *map(int, pane.window.strip("[)").split(", "))) for pane in panes})
    return any(key == other and start < end for (key, _, end), (other, start, _) in pairwise(places))


def _key(pane: Element) -> str:
    return pane.value.split(", ", 1)[0]


def assert_numbered(panes: list[Element]) -> None:
    """The panes of a key and window are numbered without a gap, and only the one numbered highest is the last."""
    by_window = defaultdict(list)
    for element in panes:
        by_window[_key(element), element.window].append(element.pane)
    for its in by_window.values():
        its.sort(key=lambda pane: pane.index)
        assert [pane.index for pane in its] == list(range(len(its)))
        assert [pane.is_first for pane in its] == [True] + [False] * (len(its) - 1)
        assert not any(pane.is_last for pane in its[:-1])
