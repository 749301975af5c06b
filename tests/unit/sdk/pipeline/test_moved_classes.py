"""Classes of stored keys and values that have moved, changed or gone between two runs of a program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.errors import StoredClassError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.transforms import trigger, userstate
from headrace.transforms.window import GlobalWindows

BEFORE, AFTER = "before_the_move", "after_the_move"
DATACLASS = "@dataclass(frozen=True)\nclass Page:\n    number: int\n"
NAMED_TUPLE = "class Page(NamedTuple):\n    number: int\n"
ENUM = "class Page(Enum):\n    ZERO = 0\n    ONE = 1\n"
STATED = (
    "class Page:\n"
    "    def __init__(self, number): self.number = number\n"
    "    def __getstate__(self): return {'number': self.number}\n"
    "    def __setstate__(self, state): self.number = state['number']\n"
    "    def __eq__(self, other): return self.number == other.number\n"
    "    def __hash__(self): return hash(self.number)\n"
    "    def __repr__(self): return f'Page(number={self.number})'\n"
)
NESTED = "class Site:\n    @dataclass(frozen=True)\n    class Page:\n        number: int\nPage = Site.Page\n"
KINDS = {"dataclass": DATACLASS, "named tuple": NAMED_TUPLE, "enum": ENUM, "stated": STATED, "nested": NESTED}
HEAD = "from dataclasses import dataclass, field\nfrom enum import Enum\nfrom typing import NamedTuple\n"


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str, str], type]]:
    """Puts a class into a new module of the program, which takes the place of the modules made before."""
    made: set[str] = set()

    def make(name: str, source: str) -> type:
        for other in made:
            sys.modules.pop(other, None)
        made.add(name)
        new = ModuleType(name)
        new.__file__ = str(tmp_path / f"{name}.py")
        sys.modules[name] = new
        exec(HEAD + source, vars(new))
        return cast(type, vars(new).get("Page", str))

    yield make
    for name in made:
        sys.modules.pop(name, None)


class Dies(Scheduler):
    """Stops the driver after the second epoch."""

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", 2):
            raise Crash("as planned")


class Remember(beam.DoFn):
    """Keeps values in state, and emits how many different ones it has."""

    SEEN = userstate.SetStateSpec("seen")
    LAST = userstate.ReadModifyWriteStateSpec("last")

    def process(self, pair, seen=beam.DoFn.StateParam(SEEN), last=beam.DoFn.StateParam(LAST)):
        before = last.read()
        seen.add(pair[1])
        last.write(pair[1])
        yield f"{before} {len(seen.read())}"


def of_keys(pairs: beam.PCollection) -> beam.PCollection:
    return pairs | "Sum" >> beam.CombinePerKey(sum) | beam.MapTuple(lambda key, total: f"{key} {total}")


def of_nested_keys(pairs: beam.PCollection) -> beam.PCollection:
    keyed = pairs | beam.MapTuple(lambda key, number: (("all", frozenset({key})), number))
    return (
        keyed
        | "Sum" >> beam.CombinePerKey(sum)
        | beam.MapTuple(lambda key, total: f"{sorted(map(str, key[1]))} {total}")
    )


def of_group_values(pairs: beam.PCollection) -> beam.PCollection:
    grouped = pairs | beam.MapTuple(lambda key, number: ("all", key)) | "Group" >> beam.GroupByKey()
    return grouped | beam.MapTuple(lambda key, values: f"{sorted(map(str, values))}")


def of_accumulators(pairs: beam.PCollection) -> beam.PCollection:
    keyed = pairs | beam.MapTuple(lambda key, number: ("all", key))
    return (
        keyed
        | "List" >> beam.CombinePerKey(beam.combiners.ToListCombineFn())
        | beam.MapTuple(lambda key, values: f"{sorted(map(str, values))}")
    )


def of_state(pairs: beam.PCollection) -> beam.PCollection:
    return pairs | beam.MapTuple(lambda key, number: ("all", key)) | "Remember" >> beam.ParDo(Remember())


def of_side_inputs(pairs: beam.PCollection) -> beam.PCollection:
    pages = pairs | beam.Keys()
    once = pairs.pipeline | "One" >> beam.Create(["all"])
    return once | "Show" >> beam.Map(lambda one, side: f"{sorted(map(str, side))}", beam.pvalue.AsList(pages))


def of_side_views(pairs: beam.PCollection) -> beam.PCollection:
    """Elements of later epochs look at what a side input had in the first epoch."""
    early = pairs | beam.Filter(lambda pair: pair[1] < 4) | beam.Keys()
    windowed = early | beam.WindowInto(
        GlobalWindows(),
        trigger=trigger.Repeatedly(trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
    )
    shown = beam.Map(lambda pair, side: f"{pair[1]} {sorted(map(str, side))}", beam.pvalue.AsList(windowed))
    return pairs | "Show" >> shown


PLACES = {
    function.__name__: function
    for function in (of_keys, of_nested_keys, of_group_values, of_accumulators, of_state, of_side_inputs, of_side_views)
}


def run(
    place: str, page: Callable[[int], object], checkpoint: str | None = None, dies: bool = False
) -> dict[int, list[object]]:
    """Run the program of that name; returns the rows that were delivered with each epoch."""
    rows: dict[int, list[object]] = {}
    options = PipelineOptions(checkpoint=checkpoint, max_records_per_epoch=4)
    with suppress(Crash), beam.Pipeline(LocalRunner(scheduler=Dies() if dies else Scheduler()), options) as pipeline:
        pairs = pipeline | beam.Create(range(12)) | "Pair" >> beam.Map(lambda number: (page(number % 2), number))
        out = PLACES[place](pairs)
        _ = out | "Out" >> beam.io.Write(CallSink(lambda epoch, its: rows.update({epoch: [row for row, _ in its]})))
    return rows


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_has_moved_is_the_same_class(kind, place, module, tmp_path):
    whole = run(place, module(BEFORE, KINDS[kind]))
    checkpoint = str(tmp_path / "checkpoint")
    first = run(place, module(BEFORE, KINDS[kind]), checkpoint, dies=True)
    assert first | run(place, module(AFTER, KINDS[kind]), checkpoint) == whole


STORED_VALUES = {
    "dataclass of two": "@dataclass(frozen=True)\nclass Page:\n    number: int\n    size: int = 0\n",
    "slots": "@dataclass(frozen=True, slots=True)\nclass Page:\n    number: int\n    size: int\n",
}
"""Classes of values that are no keys."""
EDITS: dict[str, tuple[str, str, Callable[[type], Callable[[int], object]], str]] = {
    "gone": ("dataclass", "", lambda page: str, "is no longer in the program"),
    "a member gone": (
        "enum",
        "class Page(Enum):\n    ZERO = 0\n",
        lambda page: lambda number: page(0),
        "had the member ONE, which it no longer has",
    ),
    "a field more": (
        "named tuple",
        "class Page(NamedTuple):\n    number: int\n    size: int\n",
        lambda page: lambda number: page(number, 0),
        "had the fields number and now has number, size, without a plain default for each",
    ),
    "a field in front": (
        "named tuple",
        "class Page(NamedTuple):\n    size: int\n    number: int = 0\n",
        lambda page: lambda number: page(0, number),
        "had the fields number and now has size, number",
    ),
    "a field renamed": (
        "named tuple",
        "class Page(NamedTuple):\n    size: int\n",
        lambda page: page,
        "had the fields number and now has size",
    ),
    "a dataclass's field renamed": (
        "dataclass of two",
        "@dataclass(frozen=True)\nclass Page:\n    number: int\n    total: int = 0\n",
        lambda page: page,
        "had the fields number, size and now has number, total",
    ),
    "a dataclass's field more": (
        "dataclass of two",
        "@dataclass(frozen=True)\nclass Page:\n    number: int\n    size: int = 0\n"
        "    all: list = field(default_factory=list, compare=False)\n",
        lambda page: page,
        "had the fields number, size and now has number, size, all, without a plain default for each",
    ),
    "slots in another order": (
        "slots",
        "@dataclass(frozen=True, slots=True)\nclass Page:\n    size: int\n    number: int\n",
        lambda page: lambda number: page(0, number),
        "had the fields number, size and now has size, number",
    ),
    "another kind": ("named tuple", DATACLASS, lambda page: page, "was a named tuple and is a dataclass now"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "members", ["ZERO = 1\n    ONE = 0", "NEW = 0\n    ZERO = 1\n    ONE = 2"], ids=["moved", "more"]
)
def test_members_of_an_enumeration_are_told_by_their_names(members, place, module, tmp_path):
    whole = run(place, module(BEFORE, ENUM))
    checkpoint = str(tmp_path / "checkpoint")
    first = run(place, module(BEFORE, ENUM), checkpoint, dies=True)
    page = module(BEFORE, f"class Page(Enum):\n    {members}\n")
    assert first | run(place, lambda number: (page.ZERO, page.ONE)[number], checkpoint) == whole


@pytest.mark.parametrize("place", [place for place in PLACES if "side" not in place])
@pytest.mark.parametrize("edit", EDITS)
def test_a_class_that_is_gone_or_has_changed_is_named(edit, place, module, tmp_path):
    kind, source, maker, said = EDITS[edit]
    if "keys" in place and kind in STORED_VALUES:
        return
    if "keys" in place and "field" in edit:
        said = "had the fields (number) in keys and now has ("
    elif "keys" in place and edit == "another kind":
        said = "was another kind of class in keys (dataclass, named tuple or enumeration)"
    elif "keys" in place and edit == "a member gone":
        said = "has changed"
    checkpoint = str(tmp_path / "checkpoint")
    first = module(BEFORE, (KINDS | STORED_VALUES)[kind])
    run(place, (lambda number: first(number, 0)) if kind in STORED_VALUES else first, checkpoint, dies=True)
    page = module(BEFORE, source)
    with pytest.raises(StoredClassError) as raised:
        run(place, maker(page), checkpoint)
    assert f"stored data names {BEFORE}.Page, which {said}" in str(raised.value)
    assert raised.value.step in ("Sum", "Group", "List", "Remember")


@pytest.mark.parametrize("place", ["of_group_values", "of_accumulators", "of_state"])
def test_a_named_tuple_may_get_a_field_with_a_default_at_its_end(place, module, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")
    longer = f"{NAMED_TUPLE}    size: int = 5\n"
    whole = run(place, module(BEFORE, longer))
    first = run(place, module(BEFORE, NAMED_TUPLE), checkpoint, dies=True)
    assert {epoch: [str(row).replace(", size=5", "") for row in rows] for epoch, rows in whole.items()} == {
        epoch: [str(row).replace(", size=5", "") for row in rows]
        for epoch, rows in (first | run(place, module(BEFORE, longer), checkpoint)).items()
    }


@pytest.mark.parametrize("place", ["of_keys", "of_nested_keys"])
@pytest.mark.parametrize("kind", [DATACLASS, NAMED_TUPLE, ENUM], ids=["dataclass", "named tuple", "enum"])
def test_a_class_that_is_renamed_and_keeps_its_old_name_is_no_class_of_keys(kind, place, module, tmp_path):
    """Equal keys of the two names would be different ones."""
    renamed = kind.replace("class Page", "class Sheet") + "Page = Sheet\n"
    checkpoint = str(tmp_path / "checkpoint")
    run(place, module(BEFORE, kind), checkpoint, dies=True)
    page = module(BEFORE, renamed)
    with pytest.raises(StoredClassError) as raised:
        run(place, page, checkpoint)
    assert f"stored data names {BEFORE}.Page, which is called Sheet now, so that equal keys would" in str(raised.value)
    assert "put the class back under its old name, or begin" in str(raised.value)


def test_rows_of_a_sink_whose_class_is_gone_are_named_at_the_start(module, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")
    page = module(BEFORE, DATACLASS)

    def write(scheduler: Scheduler) -> list[object]:
        rows: list[object] = []
        with beam.Pipeline(LocalRunner(scheduler=scheduler), PipelineOptions(checkpoint=checkpoint)) as pipeline:
            pages = pipeline | beam.Create([0, 1]) | "Page" >> beam.Map(lambda number: page(number))
            _ = pages | "Out" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(row for row, _ in its)))
        return rows

    class DiesBeforeDelivery(Scheduler):
        def step(self, name: str, epoch: int) -> None:
            if (name, epoch) == ("deliver", 1):
                raise Crash("as planned")

    with suppress(Crash):
        write(DiesBeforeDelivery())
    module(AFTER, "")
    with pytest.raises(StoredClassError, match=rf"step 'Out' cannot go on: stored data names {BEFORE}\.Page, which"):
        write(Scheduler())
    moved = module(AFTER, DATACLASS)
    assert write(Scheduler()) == [moved(0), moved(1)]


PROGRAM = """
import sys
from dataclasses import dataclass

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler


@dataclass(frozen=True)
class Page:
    number: int


def pipeline(pipeline):
    pairs = pipeline | beam.Create(range(12)) | "Pair" >> beam.Map(lambda n: (Page(n % 2), n))
    _ = pairs | "Sum" >> beam.CombinePerKey(sum) | "Print" >> beam.Map(print)


class Dies(Scheduler):
    def step(self, name, epoch):
        if (name, epoch) == ("delivered", 2):
            raise Crash("as planned")


if __name__ == "__main__":
    options = PipelineOptions(checkpoint=sys.argv[1], max_records_per_epoch=4)
    try:
        with beam.Pipeline(LocalRunner(scheduler=Dies()), options) as made:
            pipeline(made)
    except Crash:
        print("died")
"""


def test_a_program_begun_by_python_goes_on_with_headrace_run(tmp_path):
    (tmp_path / "pages.py").write_text(PROGRAM, encoding="utf-8")

    def said(*command: str) -> list[str]:
        ran = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    assert said("pages.py", "state") == ["died"]
    again = said("-m", "headrace", "run", "pages.py", "--runner=LocalRunner", "--checkpoint=state", "--no-progress")
    assert again[:2] == ["(Page(number=0), 30)", "(Page(number=1), 36)"]
