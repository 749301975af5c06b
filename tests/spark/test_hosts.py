"""A cluster for real: what happens to hosts, networks, disks and drivers changes nothing of what comes out."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.tally import Tally
from tests.spark import onhosts
from tests.spark.nethosts import SECONDS, Cluster, Host, may_have_hosts, wait_for
from tests.spark.test_executors import left_in

pytestmark = [
    pytest.mark.spark,
    pytest.mark.faults,
    pytest.mark.skipif(not may_have_hosts(), reason="network namespaces need root"),
]
LONGEST = 400
"""Seconds that a driver may take, with a fault."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two hosts, for all tests."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@dataclass
class Life:
    """A program that runs on the cluster, and what it has done so far."""

    cluster: Cluster
    folder: Path
    place: str
    settings: dict[str, str] = field(default_factory=dict)
    slow_host: str = ""
    driver: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.out = self.folder / "out"
        self.out.mkdir()
        self.log = self.folder / "driver.log"

    def start(self) -> None:
        """Start a driver."""
        program = ["tests.spark.onhosts", self.place, str(self.out), self.slow_host]
        self.driver = self.cluster.driver(program, self.settings, self.log)

    def end(self) -> int:
        """Wait for it to end, and return its exit code."""
        assert self.driver is not None
        return self.driver.wait(LONGEST)

    def kill(self) -> None:
        """Kill it; its Java process ends with it."""
        if self.driver is not None:
            self.driver.kill()
            self.driver.wait()

    def commits(self) -> list[float]:
        """When each epoch was committed."""
        path = Path(f"{self.out}.commits")
        return [float(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []

    def committed(self, epochs: int) -> None:
        """Wait until so many more epochs are committed."""
        wanted = len(self.commits()) + epochs

        def there() -> bool:
            assert self.driver is not None and self.driver.poll() is None, self.log.read_text()[-3000:]
            return len(self.commits()) >= wanted

        wait_for(f"{epochs} more epochs", there, LONGEST)

    def worked(self) -> set[str]:
        """Hosts and processes that ran tasks."""
        return {path.name for path in Path(f"{self.out}.notes").iterdir()}


def kill_executor(life: Life, host: Host) -> None:
    """An executor is killed."""
    (executor,) = host.executors()
    os.kill(executor, signal.SIGKILL)


def stop_executor(life: Life, host: Host) -> None:
    """An executor and its Python processes are stopped until it counts as lost and epochs have gone on; then go on."""
    zombies = host.tasks()
    host.signal(zombies, signal.SIGSTOP)
    life.committed(2)
    host.signal(zombies, signal.SIGCONT)


def kill_host(life: Life, host: Host) -> None:
    """All processes of a host are killed."""
    host.kill()


def cut_network(life: Life, host: Host) -> None:
    """A host has no network for longer than anybody waits for it."""
    host.cut()
    time.sleep(2 * SECONDS)
    host.mend()


def fill_disk(life: Life, host: Host) -> None:
    """A host's disk is full."""
    assert host.fill() > 0


def kill_driver(life: Life, host: Host) -> None:
    """The driver is killed, and started again."""
    life.kill()
    life.start()


FAULTS = [kill_executor, stop_executor, kill_host, cut_network, fill_disk, kill_driver]
TOLERANT = {
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "1",
}


def judge(life: Life, run: Tally) -> None:
    """What came out is what plain recomputation gives, both ways; what was delivered again was the same."""
    assert not (life.out / "differs").exists()
    minutes = [list(minute) for minute in onhosts.minutes()]
    run.compare(minutes, onhosts.came(life.out, "minutes"), "minutes")
    totals = onhosts.came(life.out, "totals")
    for group in range(2):
        so_far = sorted(total for key, total in totals if key == group)
        steps = [later - earlier for earlier, later in zip([0, *so_far], so_far, strict=False)]
        run.compare((minute[3] for minute in minutes if minute[0] % 2 == group), steps, f"steps of total {group}")


def undergo(life: Life, fault: Callable[[Life, Host], None], run: Tally) -> None:
    """Run the program, have the fault happen in its midst, and judge it."""
    host = life.cluster.hosts[0]
    life.cluster.ready()
    life.start()
    try:
        life.committed(3)
        assert {name.partition("-")[0] for name in life.worked()} == {one.name for one in life.cluster.hosts}
        run.plan()
        began, before = time.time(), len(life.commits())
        fault(life, host)
        run.fire()
        code = life.end()
    finally:
        life.kill()
    assert code == 0, life.log.read_text()[-5000:]
    run.recovered(life.commits()[before] - began)
    judge(life, run)
    assert left_in(life.cluster.folder / "temporary") == []


@pytest.mark.parametrize("fault", FAULTS)
def test_on_a_shared_folder(
    cluster: Cluster, tmp_path: Path, tally: Callable[[int], Tally], fault: Callable[[Life, Host], None]
) -> None:
    undergo(Life(cluster, tmp_path, str(tmp_path / "checkpoint"), TOLERANT), fault, tally(18))
