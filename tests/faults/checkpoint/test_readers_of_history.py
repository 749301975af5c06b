"""Everything that shows a checkpoint reads every epoch of a long history, and calls none of them damaged.

The readers are `inspect`, as text and as JSON, `plot`, `explain`, `CheckpointView` and the page. The histories have
restarts, changes of intervals and topology, recordings, signatures, and commits of which some part is large.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

import headrace as beam
from headrace.cli.app import app
from headrace.lowlevel import CheckpointError, CheckpointView
from headrace.lowlevel.checkpoint.files import snapshot
from headrace.lowlevel.checkpoint.log.commit_log import look, read_entry
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.storage import object_names
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.foreach_epoch import ForeachEpoch
from headrace.sdk.recording.checkpoint_recording import recording_at
from headrace.sdk.transforms.core.low_level import Read
from headrace.transforms.window import FixedWindows
from headrace.ui.pipelines import StoredPipeline
from tests.depth import examples

LARGE = "x" * 70_000
"""More than a log entry has in itself."""
EVERY = examples(8, 1)
"""Of so many epochs one is read by the slower readers."""
SECOND = 1_000_000
KINDS = ("nothing", "position", "rows", "state", "metrics", "key of a hold")
PROGRAM = """
from tests.faults.checkpoint.test_readers_of_history import build

def pipeline(pipeline):
    build(pipeline, {large!r}, {end}, {extra})
"""


class Counted(BaseInjector):
    """A record an epoch, and positions that may be large."""

    def __init__(self, large: str, end: int) -> None:
        self.large, self.end = large, end
        self.max_delay = 0

    def start(self) -> object:
        return (0, "")

    def plan(self, position: Any, limit: int, splits: int) -> Delivery:
        number = position[0]
        key = f"key {number % 5}" + (LARGE if self.large == "key of a hold" else "")
        batch = Batch([(key, LARGE if self.large in ("rows", "state") else "few")], [number * SECOND])
        text = LARGE if self.large == "position" else ""
        return Delivery([MemorySplit(batch)], (number + 1, text), done=number + 1 >= self.end)


class Noted(beam.DoFn):
    """Passes elements on, and adds a text to a set of texts."""

    def process(self, element: Any) -> Any:
        for number in range(500):
            beam.metrics.Metrics.string_set("noted", f"{number} {'x' * 200}").add("one")
        yield element


def build(pipeline: beam.Pipeline, large: str, end: int, extra: bool = False) -> None:
    """Sums in windows and a grouping whose state stays small, unless just that is to be large."""
    given = pipeline | "Numbers" >> Read(Counted(large, end))
    if large == "metrics":
        given = given | "Noted" >> beam.ParDo(Noted())
    windows = given | beam.WindowInto(FixedWindows(4))
    lengths = windows | "Length" >> beam.Map(lambda pair: (pair[0], len(pair[1])))
    _ = lengths | "Sum" >> beam.CombinePerKey(sum) | "Sums" >> ForeachEpoch(lambda epoch, rows: None)
    if large == "state":
        _ = windows | "All" >> beam.GroupByKey() | "Number" >> beam.Map(len)
    if large == "rows":
        _ = given | "Rows" >> ForeachEpoch(lambda epoch, rows: None)
    if extra:
        _ = lengths | "Extra" >> beam.GroupByKey() | "Extras" >> beam.Map(len)


class StopError(Exception):
    """Ends a life of the driver."""


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, f"{arguments}: {result.stderr} {result.exception!r}"
    return result.stdout


class Readers:
    """Everything that shows a checkpoint."""

    def __init__(self, place: Path, program: Path) -> None:
        self.place, self.program = str(place), str(program)
        self.page = StoredPipeline(self.place)
        self.picture = program.with_suffix(".svg")
        self.seen = 0
        """How many epochs were read."""

    def newest(self) -> None:
        """Read the last commit."""
        self.seen += 1
        view = CheckpointView.of(self.place)
        assert view.manifest is not None
        self._load(view)
        if self.seen % EVERY:
            return
        shown = self.page.snapshot()
        assert not shown.problem
        json.dumps(asdict(shown))
        assert StoredPipeline(self.place).snapshot().epoch == view.manifest.epoch
        for step in recording_at(self.place).steps:
            assert all(first <= last <= view.manifest.epoch for first, last in step.epochs)
        said("inspect", self.place)
        said("explain", self.program, f"--checkpoint={self.place}")
        said("plot", self.place, "--step=Sum", f"--output={self.picture}")
        assert self.picture.read_text().startswith("<")
        self.picture.unlink()

    @staticmethod
    def _load(view: CheckpointView) -> None:
        for name in view.computations():
            stored = view.load(name)
            assert view.count_lines(name) + sum(1 for _ in view.states(name)) + len(view.timers(name)) >= 0
            assert view.count_ids(name) == sum(len(delta.ids) for delta in stored.dump())

    def all(self) -> None:
        """Read every epoch that is listed, and some of them by every command."""
        view = CheckpointView.of(self.place)
        epochs = [commit.epoch for commit in view.epochs()]
        last = 0 if view.manifest is None else view.manifest.epoch
        assert epochs[-2:] == [epoch for epoch in (last - 1, last) if epoch]
        assert json.loads(said("inspect", self.place, "--json"))["epochs"] == epochs
        for number, commit in enumerate(commit for commit in view.commits() if commit.epoch in epochs):
            shown = replace(view, manifest=commit)
            assert len(shown.injectors()) == 1
            shown.files(), shown.pending(), shown.holders(), shown.watermarks()
            if number % EVERY == 0:
                self._load(shown)
        for epoch in {*epochs[:: 8 * EVERY], epochs[-1]}:
            said("inspect", self.place, f"--at-epoch={epoch}")
            assert json.loads(said("inspect", self.place, f"--at-epoch={epoch}", "--json"))["epoch"] == epoch
        said("plot", self.place)


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))


def lived(
    place: Path, large: str, end: int, epochs: int, readers: Readers | None, extra: bool = False, **options: Any
) -> bool:
    """Run up to so many epochs; return whether the input has ended."""
    left = [epochs]

    def note(progress: object) -> None:
        if readers is not None:
            readers.newest()
        left[0] -= 1
        if not left[0]:
            raise StopError

    flags = {"max_records_per_epoch": 1, "progress": note, "checkpoint": str(place), **options}
    pipeline = beam.Pipeline(LocalRunner(), PipelineOptions(**flags))
    build(pipeline, large, end, extra)
    try:
        pipeline.run()
    except StopError:
        return False
    return True


@pytest.mark.parametrize("large", KINDS[1:])
def test_every_epoch_that_a_hundred_leave(large: str, tmp_path: Path) -> None:
    place, program = tmp_path / "state", tmp_path / f"program_{KINDS.index(large)}.py"
    program.write_text(PROGRAM.format(large=large, end=200, extra=False))
    readers = Readers(place, program)
    for epochs in (99, 1):
        assert not lived(place, large, 200, epochs, None, record="Sum")
    readers.all()
    # The recording goes on from the commits that are left.
    [step] = [step for step in recording_at(place).steps if step.label == "Sum"]
    assert len(step.arrivals) == 100 and step.epochs == ((1, 100),)


def test_a_commit_that_is_kept_for_its_deltas_only_is_no_epoch_to_look_at(tmp_path: Path) -> None:
    assert not lived(tmp_path, "position", 200, 70, None)
    view = CheckpointView.of(tmp_path)
    entries = sorted(filter(None, map(object_names.number_of, view.store.list(object_names.LOG))))
    assert entries == list(range(1, 71))
    with pytest.raises(CheckpointError, match=r"epoch 5 is not in the log of .* \(epochs: \d"):
        view.at_epoch(5)
    # The same object of a commit that must be whole is missing, and named.
    last = look(view.store)
    [bulk] = [path for path in view.store.list(object_names.BLOBS) if object_names.epoch_of(path) == 69]
    view.store.delete(bulk)
    for reads in (
        lambda: view.at_epoch(70),
        lambda: list(view.commits()),
        lambda: read_entry(view.store, last.base - 1),
    ):
        with pytest.raises(CheckpointError, match=rf"{bulk} in .* is missing, but the log names it"):
            reads()


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(examples(2, 60)))
def test_every_epoch_of_a_random_history(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random, place = Random(seed), tmp_path / "state"
    large, end = random.choice(KINDS), examples(50, 300)
    if random.random() < 0.5:
        monkeypatch.setenv("HEADRACE_CHECKPOINT_KEY", "a secret of more than sixteen bytes")
    # Snapshots after a few epochs as well.
    monkeypatch.setattr(snapshot, "_CARRIED_FOR_ONE", random.choice([1, 4, 16]))
    seen = done = 0
    while not done:
        extra, intervals = random.random() < 0.4, random.choice([1, 1, 3])
        program = tmp_path / f"of_{seed}_{seen}.py"
        program.write_text(PROGRAM.format(large=large, end=end, extra=extra))
        readers = Readers(place, program)
        options = {"intervals": intervals, "allow_removed": ["Extra"], "record": random.choice([None, "Sum"])}
        done = lived(place, large, end, random.randint(5, 50), readers, extra, **options)
        readers.all()
        seen += readers.seen
    assert seen >= end
