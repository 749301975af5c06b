"""RELIABILITY row 19: the power goes at any moment, what was not synced is lost, and nothing that was delivered is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.lowlevel.checkpoint.files import snapshot
from headrace.lowlevel.checkpoint.manifest import manifest
from headrace.runners.engine.driver import checkpoint_journal
from tests.depth import faults
from tests.faults.fulldisk import spread
from tests.faults.power import Power
from tests.faults.powerlives import SINKS, delivered, dies, elsewhere, expected, life
from tests.faults.realpower import lives, may_mount_images
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults

BLOCKS, LAST = 4, 2
ALIVE = "it keeps drivers apart that are alive, and those of other hosts may be"
RENAMED = (
    "where files came from is synced, too, and no journal takes a name away without giving the new one; others may"
)
NOBODY = {"bytes of a lease": ALIVE, "names in checkpoint/leases": ALIVE}
NOBODY |= {f"names in out/key={key}": RENAMED for key in "abc"}
"""Syncs that one driver at a time on a file system with a journal could do without, and why there are any."""
OBJECTS = ("checkpoint", "lease", "seal", "commit", "commit's bulk", "delta file")
KINDS = {*(f"bytes of a {what}" for what in OBJECTS), "names in .", "names in checkpoint", "names in checkpoint/log"}
"""Some of the checkpoint's, of any sink."""


@pytest.fixture(autouse=True)
def _everything_in_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots, bulk apart and collections of garbage come in the first epochs."""
    monkeypatch.setattr(snapshot, "MOST_DELTAS", 2)
    monkeypatch.setattr(manifest, "_INLINE_BYTES", 256)
    monkeypatch.setattr(checkpoint_journal, "_GARBAGE_EVERY", 2)


def fresh(tmp_path: Path) -> Path:
    disk = tmp_path / "disk"
    shutil.rmtree(disk, ignore_errors=True)
    shutil.rmtree(elsewhere(disk), ignore_errors=True)
    disk.mkdir()
    return disk


def moments(seed: int, sink: str, tmp_path: Path) -> list[str]:
    """Those of a life in which the power stays; its output is right."""
    disk = fresh(tmp_path)
    power = Power(disk, Random(0))
    life(seed, sink, disk, power)
    assert delivered(disk) == expected(seed)
    return power.moments


def go_on(seed: int, sink: str, disk: Path) -> list[str]:
    """The last life, and what is delivered then."""
    life(seed, sink, disk, Power(disk, Random(0)), LAST)
    return delivered(disk)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_is_lost_and_nothing_doubled(tally: Callable[[int], Tally], tmp_path: Path, block: int) -> None:
    run = tally(19)
    for seed in run.seeds(16, 1000, block, BLOCKS):
        sink, random, disk = list(SINKS)[seed % len(SINKS)], Random(f"cut {seed}"), fresh(tmp_path)
        # With every other seed once more, while the next life recovers. Where there are fewer moments, after the last.
        for number, most in enumerate((250, 100)[: 1 + seed % 2]):
            power = Power(disk, random, random.randint(1, most))
            run.plan()
            run.note("cuts in the middle of a life", int(dies(seed, sink, disk, power, number)))
            assert power.left is not None
            run.fire()
        run.compare(expected(seed), go_on(seed, sink, disk), f"files of {sink}")


@pytest.mark.parametrize("sink", SINKS)
def test_at_every_moment(tally: Callable[[int], Tally], tmp_path: Path, sink: str) -> None:
    run, names = tally(19), moments(1, sink, tmp_path)
    assert {"plan", "saved level 1", "commit", "committed", "deliver", "delivered"} <= set(names)
    for at in spread(len(names), faults(quick=5, full=1000)):
        disk = fresh(tmp_path)
        run.plan()
        assert dies(1, sink, disk, Power(disk, Random(at), at + 1)), names[at]
        run.fire()
        run.compare(expected(1), go_on(1, sink, disk), f"files of {sink}, cut at {names[at]}, moment {at + 1}")


@pytest.mark.parametrize("sink", ["ended", "ended folders"])
def test_at_every_moment_after_the_input_has_ended(tally: Callable[[int], Tally], tmp_path: Path, sink: str) -> None:
    run, names = tally(19), moments(1, sink, tmp_path)
    last = max(at for at, name in enumerate(names) if name == "delivered")
    assert "before sync of bytes of a .new" in names[last:]
    for at in range(last, len(names)):
        disk = fresh(tmp_path)
        run.plan()
        assert dies(1, sink, disk, Power(disk, Random(at), at + 1)), names[at]
        run.fire()
        run.compare(expected(1), go_on(1, sink, disk), f"files of {sink}, cut at {names[at]}, moment {at + 1}")


@pytest.mark.parametrize(
    "sink", ["text", *(pytest.param(sink, marks=pytest.mark.slow) for sink in ("elsewhere", "folders"))]
)
def test_no_sync_is_in_vain(tally: Callable[[int], Tally], tmp_path: Path, sink: str) -> None:
    run, trial = tally(19), Trial(tmp_path, sink)
    files = {kind for kind in trial.kinds if "checkpoint" not in kind and kind not in KINDS}
    assert trial.kinds - files >= KINDS
    for kind in sorted((files if sink != "elsewhere" else trial.kinds) - set(NOBODY)):
        assert trial.needs(kind), f"nothing is lost without {kind}"
        run.note("kinds of syncs that were left out, and missed")
    assert files or sink == "elsewhere"


class Trial:
    """Two lives that end by a loss of power, in which syncs of a kind do nothing, and a third one."""

    def __init__(self, tmp_path: Path, sink: str) -> None:
        self._tmp_path, self._sink = tmp_path, sink
        disk = fresh(tmp_path)
        first, second = Power(disk, Random(0), 90), Power(disk, Random(0))
        assert dies(1, sink, disk, first)
        life(1, sink, disk, second, 1)
        self.kinds = {*first.synced, *second.synced}

    def needs(self, kind: str) -> bool:
        """Whether it does harm that nothing of a kind is synced."""
        return any(self._harms(kind, seed) for seed in range(400))

    def _harms(self, kind: str, seed: int) -> bool:
        disk, random = fresh(self._tmp_path), Random(f"vain {kind} {seed}")
        try:
            for number, most in enumerate((200, 60)):
                power = Power(disk, random, random.randint(1, most), without=lambda name: name == kind)
                dies(1, self._sink, disk, power, number)
            return go_on(1, self._sink, disk) != expected(1)
        except Exception:
            return True


REAL = ("text", "parquet", "windows")


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    """Where images of file systems can be mounted."""
    if reason := may_mount_images(tmp_path):
        pytest.skip(f"no image of a file system can be mounted here: {reason}")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("sink", REAL)
def test_a_file_system_copied_in_the_middle_of_a_run(
    tally: Callable[[int], Tally], image_folder: Path, sink: str
) -> None:
    run, copies = tally(19), faults(quick=3, full=20)
    run.plan(copies)
    for told in lives(image_folder, sink, REAL.index(sink), copies):
        run.fire()
        run.lost, run.duplicated = run.lost + int(str(told["lost"])), run.duplicated + int(str(told["doubled"]))
        run.note("most entries of the log on a real disk that was cut", int(str(told["epochs"])))
        assert told["error"] == "" and told["lost"] == told["doubled"] == 0, told


@pytest.mark.slow
def test_a_file_system_on_which_the_output_is_not_synced(image_folder: Path) -> None:
    told = lives(image_folder, "text", 0, 4, synced="checkpoint")
    assert any(each["lost"] or each["error"] for each in told), "nothing was lost"
