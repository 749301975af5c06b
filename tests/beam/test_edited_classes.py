"""State values of classes that are edited between two runs of a program of Beam's."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import (
    Coder,
    FastPrimitivesCoder,
    IterableCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    PickleCoder,
    StrUtf8Coder,
    TupleCoder,
    TupleSequenceCoder,
)
from apache_beam.coders.coders import LengthPrefixCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
)

from headrace.lowlevel.errors import StoredClassError
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.functions.stateful_do_fns import StateCoder
from headrace.transforms import userstate

BEFORE = """
from enum import Enum
from typing import NamedTuple

class Colour(Enum):
    RED = 1
    BLUE = 2

class Place(NamedTuple):
    row: int
    column: int

class Car:
    def __init__(self, colour):
        self.colour = colour
"""
AFTER = BEFORE.replace("    BLUE = 2", "    GREEN = 2\n    BLUE = 3")
MOVED = BEFORE.replace("    row: int\n    column: int", "    column: int\n    row: int")
ANY = FastPrimitivesCoder()


class Latest(beam.CombineFn):
    """Keeps the latest values, as a list."""

    def create_accumulator(self):
        return []

    def add_input(self, accumulator, element):
        return [*accumulator, element]

    def merge_accumulators(self, accumulators):
        return [value for accumulator in accumulators for value in accumulator]

    def extract_output(self, accumulator):
        return accumulator


class Stored(beam.DoFn):
    """Stores the colour of the module in each kind of state, and puts out the names of those stored before."""

    VALUE = ReadModifyWriteStateSpec("value", ANY)
    OBJECT = ReadModifyWriteStateSpec("object", PickleCoder())
    BAG = BagStateSpec("bag", TupleCoder([StrUtf8Coder(), IterableCoder(ANY)]))
    SET = SetStateSpec("set", ANY)
    LIST = OrderedListStateSpec("list", MapCoder(StrUtf8Coder(), ANY))
    COMBINED = CombiningValueStateSpec("combined", Latest())

    def process(
        self,
        pair,
        value=beam.DoFn.StateParam(VALUE),
        thing=beam.DoFn.StateParam(OBJECT),
        bag=beam.DoFn.StateParam(BAG),
        seen=beam.DoFn.StateParam(SET),
        listed=beam.DoFn.StateParam(LIST),
        combined=beam.DoFn.StateParam(COMBINED),
    ):
        classes: Any = importlib.import_module("edited_colours")
        if pair[1] == 2 and "GREEN" not in classes.Colour.__members__:
            raise ValueError("stop")
        if value.read() is not None:
            yield {
                "value": value.read().name,
                "object": thing.read().colour.name,
                "bag": [colour.name for _, colours in bag.read() for colour in colours],
                "set": sorted(colour.name for colour in seen.read()),
                "list": [colours["a"].name for _, colours in listed.read()],
                "combined": [colour.name for colour in combined.read()],
            }
        blue = classes.Colour.BLUE
        value.write(blue)
        thing.write(classes.Car(blue))
        bag.add(("a", [blue] * (500 if pair[1] == 0 else 1)))
        seen.add(blue)
        listed.add((pair[1], {"a": blue}))
        combined.add(blue)


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Imports the module of the classes with another text; the module is gone after the test."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def edit(text: str) -> Any:
        sys.modules.pop("edited_colours", None)
        (tmp_path / "edited_colours.py").write_text(text)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
        try:
            return importlib.import_module("edited_colours")
        finally:
            sys.dont_write_bytecode = kept

    yield edit
    sys.modules.pop("edited_colours", None)


def test_members_of_enumerations_in_state_are_found_by_name(edited, tmp_path, capsys):
    def run() -> None:
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint", "--max_records_per_epoch=1"])
        with beam.Pipeline(HeadraceRunner("LocalRunner"), options) as pipeline:
            pairs = pipeline | beam.Create([("a", number) for number in range(3)])
            _ = pairs | "Stored" >> beam.ParDo(Stored()) | beam.Map(lambda found: print("found", found))

    edited(BEFORE)
    with pytest.raises(ValueError, match="stop"):
        run()
    edited(AFTER)
    capsys.readouterr()
    run()
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("found")]
    assert eval(line.removeprefix("found")) == {
        "value": "BLUE",
        "object": "BLUE",
        "bag": ["BLUE"] * 501,
        "set": ["BLUE"],
        "list": ["BLUE"] * 2,
        "combined": ["BLUE"] * 2,
    }


CODERS: list[tuple[Coder, Any]] = [
    (PickleCoder(), lambda member: member),
    (ANY, lambda member: {"a": [member, (member, 1)]}),
    (TupleCoder([StrUtf8Coder(), PickleCoder()]), lambda member: ("a", member)),
    (IterableCoder(ANY), lambda member: [member]),
    (ListCoder(PickleCoder()), lambda member: [member]),
    (TupleSequenceCoder(ANY), lambda member: (member, member)),
    (MapCoder(PickleCoder(), NullableCoder(ANY)), lambda member: {member: None, "a": member}),
    (LengthPrefixCoder(NullableCoder(PickleCoder())), lambda member: member),
]


@pytest.mark.parametrize(("coder", "value"), CODERS, ids=[repr(coder) for coder, _ in CODERS])
def test_each_coder_of_pickled_values_stores_members_by_name(edited, coder, value):
    data = StateCoder(coder).encode(value(edited(BEFORE).Colour.BLUE))
    blue = edited(AFTER).Colour.BLUE
    assert StateCoder(coder).decode(data) == value(blue)


@pytest.mark.parametrize(("coder", "value"), CODERS, ids=[repr(coder) for coder, _ in CODERS])
def test_what_an_earlier_release_has_stored_is_read(edited, coder, value):
    blue = edited(BEFORE).Colour.BLUE
    assert StateCoder(coder).decode(coder.encode(value(blue))) == value(blue)


def test_moved_fields_of_a_named_tuple_are_refused(edited):
    data = StateCoder(ANY).encode(edited(BEFORE).Place(1, 2))
    assert StateCoder(ANY).decode(data) == (1, 2)
    edited(MOVED)
    with pytest.raises(StoredClassError, match="had the fields row, column and now has column, row"):
        StateCoder(ANY).decode(data)


def test_the_name_in_fingerprints_is_that_of_the_declared_coder():
    assert repr(StateCoder(ANY)) == f"BeamStateCoder({ANY!r})"


class _Cells(dict[bytes, bytes]):
    """The cells of one window, in memory."""

    read = dict.get
    write = dict.__setitem__

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return sorted((name, data) for name, data in self.items() if name.startswith(prefix))


def test_an_element_of_a_set_that_an_earlier_release_has_stored_is_there_once(edited):
    """It may be in two cells, as those of values that cannot be keys are named by their bytes."""
    classes = edited(BEFORE + "    def __eq__(self, other): return True\n    def __hash__(self): return 0\n")
    car = classes.Car(classes.Colour.BLUE)
    cells: Any = _Cells()
    for coder in (ANY, StateCoder(ANY)):
        states = userstate.SetStateSpec("set", coder).open(cells)
        states.add(car)
        states.store()
    assert len(cells) == 2
    assert userstate.SetStateSpec("set", StateCoder(ANY)).open(cells).read() == {car}
