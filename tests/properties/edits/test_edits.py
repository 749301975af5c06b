"""Programs that are edited between two runs: each step goes on with its own state, or the start is refused."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

import headrace as beam
from headrace.lowlevel import StoredClassError, TopologyChangeError
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.coders.coder import PLAIN
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners import RunOptions
from headrace.runners.local import Crash, LocalRunner
from tests.depth import examples
from tests.groupingedits import Dies
from tests.properties.edits.programs import (
    FOLDER,
    LIMIT,
    RECORDS,
    Editor,
    Model,
    Program,
    State,
    options_in,
    results,
)


def edition(program: Program, folder: Path) -> beam.Pipeline:
    """The pipeline of a program, which is written to a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in program.files().items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("steps_of_program", "keys_of_program"):
        sys.modules.pop(name, None)
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("edited_program", folder / "program.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules["edited_program"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        importlib.invalidate_caches()
        pipeline = beam.Pipeline("LocalRunner")
        module.pipeline(pipeline)
        return pipeline
    finally:
        sys.path.remove(str(folder))


def run(pipeline: beam.Pipeline, checkpoint: Path, until: int | None, options: Sequence[str] = ()) -> None:
    """Run to the end of an epoch, or of the input."""
    removed, discarded = (
        {option.split("=", 1)[1] for option in options if option.startswith(kind)}
        for kind in ("--allow_removed", "--discard_stored")
    )
    given = RunOptions(str(checkpoint), max_records_per_epoch=LIMIT, allow_removed=removed, discard_stored=discarded)
    with suppress(Crash):
        LocalRunner(intervals=2, scheduler=Dies(until)).run_topology(pipeline.topology(), given)


def committed(checkpoint: Path) -> tuple[int, int]:
    """The newest epoch, and how many records are in; 0 and 0 before the first."""
    if not checkpoint.exists():
        return 0, 0
    commit = Checkpoint.read(ObjectStore(str(checkpoint))).manifest
    assert commit is not None
    return commit.epoch, cast(int, PLAIN.decode(commit.positions["Numbers"]))


def check(program: Program, allowed: dict[int, list[State]], folder: Path) -> None:
    """Each branch has come to one of the results that the rules allow."""
    for branch in program.branches:
        found, states = results(folder, branch), allowed[branch.number]
        assert found in [state.result(branch) for state in states], branch


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(examples(25, 2_000)))
def test_a_restart_never_confuses(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run, stopped, edited, refused or not, and on to the end: each result is of the step's own state or begun anew."""
    rng = random.Random(seed)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    monkeypatch.setenv(FOLDER, str(out))
    editor, model = Editor(rng, edits_fields=True), Model()
    editions: list[Program] = []
    try:
        for number in range(rng.randint(2, 4)):
            editions.append(editor.snapshot())
            live(editions[-1], model, checkpoint, rng.randint(1, 2), tmp_path / f"edition {number}")
            editor.edit()
        # The last edition once more, to the end of the input.
        run(edition(editions[-1], tmp_path / f"edition {number}"), checkpoint, None)
    except StoredClassError as refusal:
        # A stored key may be met at any time, at the latest when its window ends.
        assert "which had the fields" in str(refusal)
        assert len({program.has_field for program in editions}) > 1
    else:
        check(editions[-1], model.allowed(editions[-1], RECORDS), out)


def live(program: Program, model: Model, checkpoint: Path, epochs: int, folder: Path) -> None:
    """Run an edition for some epochs; if the start is refused, with the options that the message names."""
    last_epoch = committed(checkpoint)[0]
    # A change of the topology is an epoch of its own.
    until = last_epoch + epochs + (last_epoch > 0)
    options: list[str] = []
    try:
        run(edition(program, folder), checkpoint, until)
    except TopologyChangeError as refusal:
        assert committed(checkpoint)[0] == last_epoch
        options = options_in(str(refusal))
        run(edition(program, folder), checkpoint, until, options)
    model.ran(program, committed(checkpoint)[1], options)
