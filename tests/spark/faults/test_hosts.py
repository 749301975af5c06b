"""A cluster for real: what happens to hosts, networks, disks and drivers changes nothing of what comes out."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.tally import Tally
from tests.s3 import S3, start
from tests.spark import onhosts
from tests.spark.faults.test_executors import left_in
from tests.spark.nethosts import WORKER_SECONDS, Cluster, Host, may_have_hosts, wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.faults,
    pytest.mark.slow,
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

    def noted(self, what: str) -> list[Path]:
        """What tasks noted of a kind."""
        return sorted(Path(f"{self.out}.notes").glob(f"{what}*"))


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
    time.sleep(WORKER_SECONDS + 5)
    host.mend()


def fill_disk(life: Life, host: Host) -> None:
    """A host's disk is full."""
    assert host.fill() > 0


def kill_driver(life: Life, host: Host) -> None:
    """The driver is killed, and started again."""
    life.kill()
    life.start()


Fault = Callable[[Life, Host], None]
SEEN = {
    kill_executor: "Lost executor .* code 137",
    stop_executor: "Removing executor .* with no recent heartbeats",
    kill_host: "Lost executor",
    cut_network: "Removing executor .* with no recent heartbeats",
    # Java's words or those of a state store, which come lines later: whichever writes first.
    fill_disk: r"Lost task (?s:.)*(?i:no space left on device)",
    kill_driver: "",
}
"""What Spark says on the driver when the fault has struck."""
FAULTS = list(SEEN)
TOLERANT = {
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "1",
}

SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "200ms",
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


def undergo(life: Life, fault: Fault, run: Tally) -> None:
    """Run the program, have the fault happen in its midst, and judge it."""
    host = life.cluster.hosts[0]
    life.cluster.ready()
    life.start()
    try:
        life.committed(3)
        hosts = {note.name.split("-")[1] for note in life.noted("host-")}
        assert hosts == {one.name for one in life.cluster.hosts}
        run.plan()
        began, before = time.time(), len(life.commits())
        fault(life, host)
        code = life.end()
    finally:
        life.kill()
    said = life.log.read_text()
    assert code == 0, said[-5000:]
    run.fire(re.search(SEEN[fault], said) is not None)
    run.recovered(life.commits()[before] - began)
    judge(life, run)
    assert left_in(life.cluster.folder / "temporary") == []


@pytest.fixture(scope="module")
def bucket(cluster: Cluster) -> Iterator[S3]:
    """A server that all hosts reach, with the environment of workers that reaches it."""
    server, process = start(cluster.address)
    cluster.environment.update(server.environment)
    yield server
    process.kill()
    process.wait()


@pytest.mark.parametrize("fault", FAULTS)
def test_with_a_checkpoint_in_a_shared_folder(
    cluster: Cluster, tmp_path: Path, tally: Callable[[int], Tally], fault: Fault
) -> None:
    undergo(Life(cluster, tmp_path, str(tmp_path / "checkpoint"), TOLERANT), fault, tally(18))


@pytest.mark.parametrize("fault", FAULTS)
def test_with_a_checkpoint_on_object_storage(
    cluster: Cluster, bucket: S3, tmp_path: Path, tally: Callable[[int], Tally], fault: Fault
) -> None:
    undergo(Life(cluster, tmp_path, bucket.new_place(), TOLERANT), fault, tally(18))


def test_speculation_runs_tasks_twice(cluster: Cluster, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    """One host is so slow that Spark runs its tasks on the other one as well."""
    life = Life(cluster, tmp_path, str(tmp_path / "checkpoint"), SPECULATIVE, cluster.hosts[0].name)
    run = tally(18)
    cluster.ready()
    run.plan()
    life.start()
    try:
        assert life.end() == 0, life.log.read_text()[-5000:]
    finally:
        life.kill()
    twice = [
        task for task, attempts in Counter(note.read_text() for note in life.noted("task-")).items() if attempts > 1
    ]
    run.fire(bool(twice))
    run.note("tasks run twice at once", len(twice))
    judge(life, run)
