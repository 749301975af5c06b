"""Keys of classes that move to another module between two runs of a program of Beam's; Beam's bytes name the module."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import CombiningValueStateSpec

from headrace.lowlevel import TopologyChangeError
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.checkpoint.key_spelling import has_pickled_class, spelled
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, SPELLING
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.functions import keys
from headrace.runners.beam.functions.keys import BeamKeyCoder

CLASSES = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

@dataclass(frozen=True)
class BeamPage:
    number: int

class BeamPoint(NamedTuple):
    number: int

class BeamLevel(Enum):
    ODD, EVEN = 1, 0

def page(number):
    return BeamPage(number % 2)

def point(number):
    return "a", BeamPoint(number % 2)

def level(number):
    return BeamLevel(number % 2)

def levels(number):
    return [BeamLevel(number % 2)]
"""


class Count(beam.DoFn):
    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, pair, count=beam.DoFn.StateParam(COUNT)):
        count.add(1)
        yield count.read()


class Stop(beam.DoFn):
    def __init__(self, last: int) -> None:
        self.last = last

    def process(self, number):
        if number > self.last:
            raise ValueError("stop")
        yield number


def run(folder: Path, module: str, make: str, last: int) -> None:
    key = getattr(importlib.import_module(module), make)
    options = PipelineOptions([f"--checkpoint={folder}/checkpoint", "--max_records_per_epoch=1"])
    with beam.Pipeline(HeadraceRunner("LocalRunner"), options) as pipeline:
        numbers = pipeline | beam.Create(range(6)) | beam.ParDo(Stop(last))
        pairs = numbers | "Key" >> beam.Map(lambda number: (key(number), number))
        _ = pairs | "Count" >> beam.ParDo(Count()) | "Counts" >> beam.Map(lambda count: print("count", count))
        _ = pairs | beam.CombinePerKey(sum) | beam.Values() | "Sums" >> beam.Map(lambda total: print("sum", total))


@pytest.mark.parametrize("make", ["page", "point", "level", "levels"])
def test_a_key_stays_the_same_key(make, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = f"before_{make}", f"after_{make}"
    (tmp_path / f"{modules[0]}.py").write_text(CLASSES)
    with pytest.raises(ValueError, match="stop"):
        run(tmp_path, modules[0], make, 3)
    (tmp_path / f"{modules[0]}.py").rename(tmp_path / f"{modules[1]}.py")
    del sys.modules[modules[0]]
    run(tmp_path, modules[1], make, 9)
    # Another module with classes of these names would be another place for them.
    del sys.modules[modules[1]]
    lines = sorted(capsys.readouterr().out.splitlines())
    # The epoch in which the program has stopped runs again.
    assert lines[-2:] == ["sum 6", "sum 9"]
    assert sorted(set(lines[:-2])) == ["count 1", "count 2", "count 3"] and len(lines) == 8


@dataclass(frozen=True)
class PickledPage:
    number: int


def test_keys_of_classes_that_release_0_1_has_encoded_are_known():
    coder = beam.coders.FastPrimitivesCoder().as_deterministic_coder("a step")
    assert has_pickled_class(encode_key(coder.encode(PickledPage(1))))
    assert has_pickled_class(encode_key(("a", coder.encode((PickledPage(1), 2)))))
    others = (
        "a",
        1,
        2.5,
        b"\x80\x05",
        (b"a", None),
        BeamKeyCoder(coder).encode(2.5),
        BeamKeyCoder(coder).encode(PickledPage(1)),
    )
    assert not any(map(has_pickled_class, map(encode_key, others)))


def test_a_checkpoint_of_release_0_1_with_such_keys_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "first_release.py").write_text(CLASSES)
    monkeypatch.setattr(keys, "_has_class", lambda key: False)
    with pytest.raises(ValueError, match="stop"):
        run(tmp_path, "first_release", "page", 3)
    del sys.modules["first_release"]
    view = Checkpoint.read(ObjectStore(tmp_path / "checkpoint"))
    members = view.manifest.topology.of_kind(COMPUTATION)
    assert {*members} == {"Count", "CombinePerKey(sum)"}
    for member in members.values():
        first = tuple(pair for pair in member.signature if pair[0] != SPELLING)
        with pytest.raises(
            TopologyChangeError, match=rf"(?s)step .{re.escape(member.name)}. has stored keys .*--allow"
        ):
            spelled(member._replace(signature=first), view)
        native = tuple(pair for pair in first if pair[0] != "keys encoded by")
        assert spelled(member._replace(signature=native), view) == frozenset()
