"""State values of classes that move to another module between two runs of a program of Beam's."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import FastPrimitivesCoder, ListCoder, PickleCoder, StrUtf8Coder, TupleCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec

from headrace.lowlevel.errors import StoredClassError
from headrace.runners.beam import HeadraceRunner

CLASSES = """
class BeamVisit:
    def __init__(self, number):
        self.number = number
"""


class Stored(beam.DoFn):
    """Puts out the number of the element before, which is in a state."""

    LAST = ReadModifyWriteStateSpec("last", FastPrimitivesCoder())
    PICKLED = ReadModifyWriteStateSpec("pickled", PickleCoder())
    PAIR = BagStateSpec("pair", TupleCoder([StrUtf8Coder(), ListCoder(FastPrimitivesCoder())]))

    def __init__(self, module: str) -> None:
        self.module = module

    def process(
        self,
        pair,
        last=beam.DoFn.StateParam(LAST),
        pickled=beam.DoFn.StateParam(PICKLED),
        bag=beam.DoFn.StateParam(PAIR),
    ):
        number = pair[1]
        if self.module.startswith("before") and number == 2:
            raise ValueError("stop")
        if last.read() is not None:
            [(_, [first]), *_] = bag.read()
            yield last.read().number, pickled.read().number, first.number
        visit = importlib.import_module(self.module).BeamVisit(number)
        last.write(visit)
        pickled.write(visit)
        bag.add(("visit", [visit]))


def run(folder: Path, module: str) -> None:
    options = PipelineOptions([f"--checkpoint={folder}/checkpoint", "--max_records_per_epoch=1"])
    with beam.Pipeline(HeadraceRunner("LocalRunner"), options) as pipeline:
        pairs = pipeline | beam.Create([("a", number) for number in range(4)])
        _ = pairs | "Stored" >> beam.ParDo(Stored(module)) | beam.Map(lambda numbers: print("numbers", *numbers))


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that has stored values of a class and was stopped; the class's module is gone."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "before_visits.py").write_text(CLASSES)
    with pytest.raises(ValueError, match="stop"):
        run(tmp_path, "before_visits")
    (tmp_path / "before_visits.py").rename(tmp_path / "after_visits.py")
    del sys.modules["before_visits"]
    return tmp_path


def test_values_are_read_from_the_module_in_which_the_class_is_now(stopped, capsys):
    importlib.import_module("after_visits")
    try:
        run(stopped, "after_visits")
    finally:
        del sys.modules["after_visits"]
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("numbers")]
    assert lines == ["numbers 1 1 0", "numbers 2 2 0"]


def test_a_class_that_is_gone_is_named_with_the_step_and_a_remedy(stopped):
    (stopped / "after_visits.py").write_text("BeamVisit = None")
    with pytest.raises(StoredClassError, match=r"step 'Stored' .*names before_visits.BeamVisit, .*put the class back"):
        run(stopped, "after_visits")
