"""What the steps of a pipeline say of their stored state, and so which changes of a program a checkpoint accepts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headrace as beam
from headrace.coders import BytesCoder, StrUtf8Coder, VarIntCoder, registry
from headrace.lowlevel.checkpoint.compatibility import Consent, Stored, change_of
from headrace.lowlevel.checkpoint.manifest.fingerprint import Fingerprint
from headrace.transforms.combiners import CountCombineFn, MeanCombineFn, TupleCombineFn
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from headrace.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from headrace.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampCombiner

Build = Callable[[beam.PCollection], object]


def fingerprint(build: Build) -> Fingerprint:
    pipeline = beam.Pipeline("LocalRunner")
    build(pipeline | beam.Create([("a", 1)]))
    return Fingerprint.of(pipeline.topology())


def windowed(window_fn: object = None, **how: object) -> Build:
    into = beam.WindowInto(window_fn or FixedWindows(60), **how)
    return lambda pairs: pairs | into | "Group" >> beam.GroupByKey()


def combined(combine: object, before: Callable[[beam.PCollection], beam.PCollection] = lambda pairs: pairs) -> Build:
    return lambda pairs: before(pairs) | "Group" >> beam.CombinePerKey(combine)


def triggered(trigger: object, mode: object = AccumulationMode.DISCARDING) -> Build:
    return windowed(trigger=trigger, accumulation_mode=mode, allowed_lateness=5)


def combined_in(window_fn: object, fanout: int | None = None) -> Build:
    step = beam.CombinePerKey(sum).with_hot_key_fanout(fanout)
    return lambda pairs: pairs | beam.WindowInto(window_fn) | "Group" >> step


def combined_by(trigger: object) -> Build:
    how = {"accumulation_mode": AccumulationMode.DISCARDING, "allowed_lateness": 5}
    into = beam.WindowInto(FixedWindows(60), Repeatedly(trigger), **how)
    return lambda pairs: pairs | into | "Group" >> beam.CombinePerKey(sum)


def stateful(*specs: object, name: str = "Group", domain: str = TimeDomain.WATERMARK, timer: str = "end") -> Build:
    its_timer = TimerSpec(timer, domain)

    class Stateful(beam.DoFn):
        @on_timer(its_timer)
        def end(self):
            pass

        def process(
            self,
            element,
            first=beam.DoFn.StateParam(specs[0]),
            last=beam.DoFn.StateParam(specs[-1]),
            timer=beam.DoFn.TimerParam(its_timer),
        ):
            yield element

    class One(Stateful):
        def process(self, element, first=beam.DoFn.StateParam(specs[0]), timer=beam.DoFn.TimerParam(its_timer)):
            yield element

    return lambda pairs: pairs | name >> beam.ParDo(One() if len(specs) == 1 else Stateful())


def looking(*labels: str) -> Build:
    def build(pairs: beam.PCollection) -> None:
        side = beam.pvalue.AsList(pairs | "Side" >> beam.WindowInto(GlobalWindows()))
        for label in labels:
            pairs | label >> beam.Map(lambda pair, others: pair, side)

    return build


def sum_of(values):
    return sum(values)


BAG = BagStateSpec("seen", VarIntCoder())
ACCEPTED: dict[str, tuple[Build, Build]] = {
    "longer windows": (windowed(FixedWindows(60)), windowed(FixedWindows(600))),
    "another count in a trigger": (triggered(Repeatedly(AfterCount(5))), triggered(Repeatedly(AfterCount(9)))),
    "lambdas": (combined(lambda values: sum(values)), combined(lambda values: max(values))),
    "what is before the grouping": (
        combined(sum),
        combined(sum, lambda pairs: pairs | beam.Filter(bool) | beam.Reshuffle()),
    ),
    "whether it is combined before the shuffle": (
        combined(CountCombineFn()),
        combined(CountCombineFn(), lambda pairs: (pairs, pairs | "again" >> beam.Map(tuple)) | beam.Flatten()),
    ),
    "fanout": (combined(sum), lambda pairs: pairs | "Group" >> beam.CombinePerKey(sum).with_hot_key_fanout(3)),
    "fanout in sessions": (combined_in(Sessions(60)), combined_in(Sessions(60), 4)),
    "sliding windows that do not overlap": (combined_in(SlidingWindows(10, 5)), combined_in(SlidingWindows(10, 10))),
    "a count that keys are looked at for one by one": (combined_by(AfterCount(1)), combined_by(AfterCount(2))),
    "another function for a step without state": (
        lambda pairs: pairs | "Map" >> beam.Map(str),
        lambda pairs: pairs | "Map" >> beam.FlatMap(list),
    ),
    "more state": (stateful(BAG), stateful(BAG, ReadModifyWriteStateSpec("last", StrUtf8Coder()))),
    "another DoFn of the same state": (stateful(BAG), stateful(BagStateSpec("seen", VarIntCoder()))),
}
REFUSED: dict[str, tuple[Build, Build, str]] = {
    "other windows": (windowed(), windowed(SlidingWindows(60, 30)), "has windows SlidingWindows instead of FixedWin"),
    "windows that merge": (windowed(), windowed(Sessions(60)), "has windows Sessions instead of FixedWindows"),
    "another trigger": (
        triggered(Repeatedly(AfterCount(5))),
        triggered(AfterWatermark(early=AfterCount(5), late=AfterCount(1))),
        "has trigger AfterWatermark(early Repeatedly(AfterCount), late Repeatedly(AfterCount)) instead of "
        "Repeatedly(AfterCount)",
    ),
    "another accumulation mode": (
        triggered(Repeatedly(AfterCount(5))),
        triggered(Repeatedly(AfterCount(5)), AccumulationMode.ACCUMULATING),
        "has accumulation mode ACCUMULATING instead of DISCARDING",
    ),
    "another lateness": (windowed(), windowed(allowed_lateness=9), "has allowed lateness Duration(9) instead of"),
    "another timestamp": (
        windowed(),
        windowed(timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST),
        "has timestamp combiner OUTPUT_AT_LATEST instead of OUTPUT_AT_EOW",
    ),
    "another combiner": (
        combined(MeanCombineFn()),
        combined(CountCombineFn()),
        "has combiner CountCombineFn instead of",
    ),
    "another function": (combined(sum_of), combined(max), "has combiner MaxFn instead of sum_of"),
    "combiners in another order": (
        combined(TupleCombineFn(sum, max)),
        combined(TupleCombineFn(max, sum)),
        "has combiner TupleCombineFn(MaxFn, SumFn) instead of TupleCombineFn(SumFn, MaxFn)",
    ),
    "no combiner": (combined(sum), windowed(GlobalWindows()), "has combiner none instead of SumFn"),
    "another state coder": (
        stateful(BAG),
        stateful(BagStateSpec("seen", BytesCoder())),
        "has state 'seen' BagStateSpec with BytesCoder instead of BagStateSpec with VarIntCoder",
    ),
    "another kind of state": (
        stateful(BAG),
        stateful(CombiningValueStateSpec("seen", VarIntCoder(), sum)),
        "has state 'seen' CombiningValueStateSpec with VarIntCoder of SumFn instead of BagStateSpec with VarIntCoder",
    ),
    "state that is gone": (
        stateful(BAG, ReadModifyWriteStateSpec("last", StrUtf8Coder())),
        stateful(BAG),
        "has state 'last' none instead of ReadModifyWriteStateSpec with StrUtf8Coder",
    ),
    "another clock": (
        stateful(BAG),
        stateful(BAG, domain=TimeDomain.REAL_TIME),
        "has timer 'end' REAL_TIME instead of WATERMARK",
    ),
    "a timer of another name": (
        stateful(BAG),
        stateful(BAG, timer="late"),
        "has timer 'end' none instead of WATERMARK",
    ),
    "another step that looks at a side input": (
        looking("One"),
        looking("One", "Two"),
        "has readers One, Two instead of One",
    ),
    "a label that was mistyped": (
        windowed(),
        lambda pairs: pairs | beam.WindowInto(FixedWindows(60)) | "Gruop" >> beam.GroupByKey(),
        "computation 'Group' is gone; give it its name back",
    ),
}


def refused(before: Build, after: Build) -> str:
    return ". ".join(change_of(Stored(topology=fingerprint(before)), fingerprint(after), Consent()).refused)


@pytest.mark.parametrize("case", ACCEPTED)
def test_changes_that_leave_state_its_meaning_are_accepted(case: str) -> None:
    assert refused(*ACCEPTED[case]) == ""


@pytest.mark.parametrize("case", REFUSED)
def test_changes_that_take_state_its_meaning_are_refused(case: str) -> None:
    before, after, message = REFUSED[case]
    assert message in refused(before, after)


def test_the_same_program_twice_is_the_same() -> None:
    for build in (before for before, *_ in [*ACCEPTED.values(), *REFUSED.values()]):
        assert fingerprint(build).differences(fingerprint(build)) == []


class Place:
    def __init__(self, name: str) -> None:
        self.name = name


class PlaceCoder(beam.coders.Coder):
    def encode(self, value):
        return value.name.encode()

    def decode(self, encoded):
        return Place(encoded.decode())

    def is_deterministic(self):
        return True


def test_another_coder_for_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(windowed())
    monkeypatch.setattr(registry, "_registered", {Place: PlaceCoder()})
    [sentence] = change_of(Stored(topology=before), fingerprint(windowed()), Consent()).refused
    assert "has keys with coders Place by PlaceCoder instead of none of the program's own" in sentence
