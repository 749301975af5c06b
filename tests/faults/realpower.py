"""A loss of power for real: an ext4 file system in an image, whose image is copied while a run writes to it.

What the run has in memory and not on the disk is not in the image, so the copy is what is found when the power
is back: it is mounted, which replays the journal, and the run goes on there. Needs the right to mount.

    python -m tests.faults.realpower round FOLDER SINK SEED COPIES all|checkpoint     copies of one life; JSON
    python -m tests.faults.realpower job DISK SINK SEED all|checkpoint                one life
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStore
from tests.faults.powerlives import delivered, expected, run

_ELEMENTS = 40
"""Elements of a life for each copy that is made of its disk; most of them have an epoch to themselves."""
_MEGABYTES = 24
_NAMESPACE = ("unshare", "--mount")
_MODULE = "tests.faults.realpower"


def may_mount_images(folder: Path) -> str:
    """Why no image of a file system can be mounted here; empty if one can be."""
    image = _formatted(folder / "try.img")
    if image is None:
        return "there is no mkfs.ext4"
    (folder / "try").mkdir()
    command = [*_NAMESPACE, "mount", "-o", "loop", str(image), str(folder / "try")]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return tried.stderr.strip().partition("\n")[0] if tried.returncode else ""


def lives(folder: Path, sink: str, seed: int, copies: int, synced: str = "all") -> list[dict[str, object]]:
    """What became of each copy of one life's disk; with `checkpoint` nothing else of it is synced."""
    program = [sys.executable, "-m", _MODULE, "round", str(folder), sink, str(seed), str(copies), synced]
    done = subprocess.run([*_NAMESPACE, *program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told: list[dict[str, object]] = json.loads(done.stdout)
    return told


def _formatted(image: Path) -> Path | None:
    with image.open("wb") as file:
        file.truncate(_MEGABYTES << 20)
    make = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if make is None:
        return None
    subprocess.run([make, "-q", str(image)], check=True)
    return image


@contextmanager
def _mounted(image: Path, folder: Path) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _job(disk: Path, sink: str, seed: int, copies: int, synced: str) -> list[str]:
    return [sys.executable, "-m", _MODULE, "job", str(disk), sink, str(seed), str(copies), synced]


def _copied(image: Path, copy: Path) -> None:
    """A copy as of one moment: nothing was written between two that are equal."""
    for _ in range(100):
        shutil.copyfile(image, copy)
        shutil.copyfile(image, copy.with_suffix(".again"))
        if filecmp.cmp(copy, copy.with_suffix(".again"), shallow=False):
            return
    raise AssertionError("the image never stands still")


def _round(folder: Path, sink: str, seed: int, copies: int, synced: str) -> list[dict[str, object]]:
    image = _formatted(folder / "disk.img")
    assert image is not None
    with _mounted(image, folder / "disk") as disk:
        _cut(disk, image, sink, seed, copies, synced)
    return [_gone_on(folder / f"cut-{copy}.img", folder / "disk", sink, seed, copies) for copy in range(copies)]


def _cut(disk: Path, image: Path, sink: str, seed: int, copies: int, synced: str) -> None:
    """Copies of the image at moments of a life, which is killed after the last of them."""
    random, life = Random(f"real {seed}"), subprocess.Popen(_job(disk, sink, seed, copies, synced))
    try:
        log = disk / "checkpoint" / object_names.LOG
        while not log.exists():
            assert life.poll() is None, "the life was over too soon"
            time.sleep(0.01)
        for copy in range(copies):
            time.sleep(random.uniform(0.02, 0.2))
            os.kill(life.pid, signal.SIGSTOP)
            assert life.poll() is None, "the life was over too soon"
            _copied(image, image.with_name(f"cut-{copy}.img"))
            os.kill(life.pid, signal.SIGCONT)
    finally:
        life.kill()
        life.wait()


def _gone_on(image: Path, folder: Path, sink: str, seed: int, copies: int) -> dict[str, object]:
    with _mounted(image, folder) as disk:
        before = ObjectStore(disk / "checkpoint").list(object_names.LOG)
        again = subprocess.run(_job(disk, sink, seed, copies, "all"), capture_output=True, text=True, check=False)
        wanted, got = Counter(expected(seed, copies * _ELEMENTS)), Counter(delivered(disk))
        return {
            "epochs": len(before),
            "lost": (wanted - got).total(),
            "doubled": (got - wanted).total(),
            "error": again.stderr if again.returncode else "",
        }


def main(what: str, place: str, sink: str, seed: str, copies: str, synced: str) -> None:
    if what == "round":
        print(json.dumps(_round(Path(place), sink, int(seed), int(copies), synced)))
        return
    if synced == "checkpoint":
        fsync = os.fsync
        os.fsync = lambda file: fsync(file) if "/checkpoint" in os.readlink(f"/proc/self/fd/{file}") else None
    run(int(seed), sink, Path(place), int(copies) * _ELEMENTS)


if __name__ == "__main__":
    main(*sys.argv[1:])
