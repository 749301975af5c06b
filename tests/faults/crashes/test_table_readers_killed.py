"""Tables, folders and topics that grow: the process that reads gets SIGKILL again and again while versions appear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Timer

import pytest

from tests.depth import faults
from tests.faults.crashes.readerlives import GROWING, ReaderLife
from tests.faults.crashes.tablelives import Lives, lives
from tests.faults.crashes.tableworlds import Places, SqliteWorld
from tests.faults.tally import Tally
from tests.kafkacluster import cluster

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def processes() -> Iterator[Lives]:
    with lives() as made:
        yield made


@pytest.mark.parametrize("name", sorted(GROWING))
def test_a_reader_killed_again_and_again_while_versions_appear(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Lives, tally: Callable[[int], Tally]
) -> None:
    run = tally(21)
    for seed in run.seeds(quick=1, full=12):
        random, folder = Random(f"{name} {seed}"), tmp_path / str(seed)
        folder.mkdir()
        (folder / "address").write_text(cluster().servers)
        out, growing = SqliteWorld(folder, Places(), monkeypatch), GROWING[name](folder)
        out.clear()
        growing.grow()
        life = ReaderLife(name, str(folder), growing.versions[0], str(folder / "checkpoint"))
        for _ in range(faults(quick=4, full=10)):
            run.plan()
            growth = Timer(random.uniform(0, 0.4), growing.grow)
            growth.start()
            # Where nothing new appears no moment comes; then the time is over.
            assert processes.died(replace(life, dies_at=random.randint(1, 40)), seconds=random.uniform(0.1, 1.5))
            run.fire()
            run.hit(growing.connector)
            growth.join()
        assert not processes.died(replace(life, until=growing.versions[-1]))
        run.compare(growing.rows().elements(), out.rows("append").elements(), name)
