"""A Spark cluster of hosts of their own on this machine: network namespaces at a bridge, each with a Python and a disk.

A standalone master and the driver are in the machine's own namespace, each worker in another one; `Cluster` needs root.
What it starts it ends by process ids, sessions and names of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
_PACKAGES = SPARK_HOME.parent
_MEMORY = "128m"
"""Of the master and of each worker, which only start executors."""
_numbers = count(os.getpid() % 200)
SECONDS = 10
"""After which an executor that says nothing counts as lost."""
WORKER_SECONDS = 15
"""The same of a worker, which says something four times in that time."""

_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""So many Java processes start on few cores."""

SETTINGS = {
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": f"{SECONDS}s",
    "spark.network.timeoutInterval": "2s",
    "spark.rpc.askTimeout": f"{SECONDS}s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.locality.wait": "0",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.sql.shuffle.partitions": "2",
}
"""Of Spark, with times that a test can wait for."""


def may_have_hosts() -> bool:
    """Whether this user can have network namespaces, a bridge between them, and mounts."""
    name = f"hrtry{os.getpid() % 10000}"
    with suppress(OSError):
        if os.geteuid() == 0 and _quietly("ip", "netns", "add", name):
            made = _quietly("ip", "link", "add", name, "type", "bridge") and _quietly("ip", "link", "del", name)
            return _quietly("ip", "netns", "del", name) and made
    return False


def _quietly(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _do(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)


def wait_for(what: str, found: Callable[[], object], seconds: float = 90) -> None:
    """Wait until something is there; fails if it does not come."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        time.sleep(0.1)


def python_with_pth(folder: Path) -> None:
    """A virtual environment that finds its packages by a `.pth` file; headrace is not one of them."""
    _do(sys.executable, "-m", "venv", "--without-pip", str(folder))
    (_site(folder) / "elsewhere.pth").write_text(f"{_PACKAGES}\n")


def python_with_packages(folder: Path) -> None:
    """A virtual environment that has packages as usual; headrace is not one of them."""
    _do(sys.executable, "-m", "venv", "--without-pip", str(folder))
    for entry in _PACKAGES.iterdir():
        if not entry.name.startswith(("_headrace", "headrace", "__pycache__")):
            (_site(folder) / entry.name).symlink_to(entry)


def _site(folder: Path) -> Path:
    (found,) = folder.glob("lib/python*/site-packages")
    return found


class Host:
    """A worker: processes in a network namespace, where `python` is a Python of their own, and so is the disk."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.name, self.address = f"{cluster.name}w{number}", f"{cluster.net}.{number + 1}"
        self.folder = cluster.folder / f"host{number}"
        self.disk = self.folder / "disk"
        self._cluster = cluster
        self._worker: subprocess.Popen[bytes] | None = None
        self.log = self.folder / "log"

    def make(self, python: Callable[[Path], None], stack: ExitStack) -> None:
        """Make its namespace, disk and Python, and have the stack take them away."""
        self.disk.mkdir(parents=True)
        python(self.folder / "python")
        _do("mount", "-t", "tmpfs", "-o", "size=256m", "none", str(self.disk))
        stack.callback(_quietly, "umount", "-l", str(self.disk))
        _do("ip", "netns", "add", self.name)
        stack.callback(_quietly, "ip", "netns", "del", self.name)
        _do("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        stack.callback(_quietly, "ip", "link", "del", self.link)
        _do("ip", "link", "set", self.link, "master", self._cluster.name, "up")
        for command in ("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up"):
            _do("ip", "-n", self.name, *command.split())
        stack.callback(self.kill)

    @property
    def link(self) -> str:
        """The cable, at the bridge's end."""
        return f"{self.name}v"

    def cut(self) -> None:
        """Cut the network."""
        _do("ip", "link", "set", self.link, "down")

    def mend(self) -> None:
        """Have the network again."""
        _do("ip", "link", "set", self.link, "up")

    def start(self, environment: dict[str, str]) -> None:
        """Start the worker; a folder of the cluster is its own Python, whatever that is on other hosts."""
        own = self.folder / "python"
        scratch = self.disk / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        worker = f"org.apache.spark.deploy.worker.Worker --host {self.address} --webui-port 0 -c 1 -m 1g"
        command = f"{SPARK_HOME}/bin/spark-class {worker} -d {self.folder}/work {self._cluster.master_url}"
        bound = f"mount --bind {own} {self._cluster.python} && exec {command}"
        with self.log.open("ab") as log:
            self._worker = subprocess.Popen(
                ["ip", "netns", "exec", self.name, "sh", "-c", bound],
                env={
                    **environment,
                    "SPARK_LOCAL_IP": self.address,
                    "SPARK_LOCAL_DIRS": str(scratch),
                    "TMPDIR": str(scratch),
                    "HEADRACE_STATE_STORES": str(scratch / "state-stores"),
                    "HEADRACE_TEST_HOST": self.name,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_up(self) -> bool:
        """Whether its worker's process is there."""
        return self._worker is not None and self._worker.poll() is None

    def processes(self) -> Iterator[int]:
        """All of its processes: the worker's, executors', Python's."""
        if self._worker is None:
            return
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError, IndexError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self._worker.pid:
                        yield int(entry.name)

    def executors(self) -> list[int]:
        """Its executors' processes."""
        return [process for process in self.processes() if b"CoarseGrainedExecutorBackend" in _command(process)]

    def tasks(self) -> list[int]:
        """Executors, and the Python processes that run their tasks."""
        return [process for process in self.processes() if b"deploy.worker.Worker" not in _command(process)]

    def signal(self, processes: list[int], number: int) -> None:
        """Send a signal to processes of this host."""
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self) -> None:
        """Kill all of its processes."""
        while left := list(self.processes()):
            self.signal(left, signal.SIGKILL)
            if self._worker is not None:
                self._worker.poll()
            time.sleep(0.05)

    def fill(self) -> int:
        """Fill its disk; the bytes that were free."""
        free = shutil.disk_usage(self.disk).free
        with (self.disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while ballast.write(bytes(1 << 16)):
                pass
        return free

    def free(self) -> None:
        """Make room on its disk again."""
        (self.disk / "ballast").unlink(missing_ok=True)


def _command(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


class Cluster:
    """A master and two workers, in a folder; a context manager."""

    def __init__(self, folder: Path) -> None:
        number = next(_numbers)
        self.name, self.net = f"hr{os.getpid() % 10000}x{number}", f"10.213.{number % 250}"
        self.folder = folder
        self.python = folder / "python"
        self.address = f"{self.net}.1"
        self.environment: dict[str, str] = {}
        """More of what its workers find in their environment."""
        self._master: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()
        self.hosts = [Host(self, 1), Host(self, 2)]

    def __enter__(self) -> Cluster:
        with ExitStack() as stack:
            _do("ip", "link", "add", self.name, "type", "bridge")
            stack.callback(_quietly, "ip", "link", "del", self.name)
            _do("ip", "addr", "add", f"{self.address}/24", "dev", self.name)
            _do("ip", "link", "set", self.name, "up")
            self.python.mkdir()
            python_with_pth(self.folder / "driver")
            for host, python in zip(self.hosts, (python_with_pth, python_with_packages), strict=True):
                host.make(python, stack)
            self._start_master()
            stack.callback(self._stop_master)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_master(self) -> None:
        with socket.socket() as free:
            free.bind((self.address, 0))
            port = free.getsockname()[1]
        self.master_url = f"spark://{self.address}:{port}"
        master = f"org.apache.spark.deploy.master.Master --host {self.address} --port {port} --webui-port 0"
        with (self.folder / "master.log").open("ab") as log:
            self._master = subprocess.Popen(
                [f"{SPARK_HOME}/bin/spark-class", *master.split()],
                env=self._environment() | {"SPARK_LOCAL_IP": self.address},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _stop_master(self) -> None:
        if self._master is not None:
            self._master.kill()
            self._master.wait()

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "HEADRACE"))
        }
        return {
            **kept,
            **self.environment,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": _MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.worker.timeout={WORKER_SECONDS} {_QUICK}",
        }

    def ready(self) -> None:
        """Have both workers, whatever became of them before."""
        for host in self.hosts:
            host.mend()
            host.free()
            host.kill()
            host.log.unlink(missing_ok=True)
            host.start(self._environment())
        for host in self.hosts:
            said = f"{host.name} at the master"
            wait_for(said, lambda host=host: b"Successfully registered with master" in host.log.read_bytes())

    def driver(self, program: list[str], settings: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a driver: a module and its arguments, in an environment whose packages a `.pth` file leads to."""
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        of_driver = {"spark.master": self.master_url, "spark.driver.host": self.address}
        lines = [f"{name} {value}\n" for name, value in {**SETTINGS, **of_driver, **settings}.items()]
        (conf / "spark-defaults.conf").write_text("".join(lines))
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": self.address,
            "PYSPARK_PYTHON": str(self.python / "bin" / "python"),
            "PYSPARK_DRIVER_PYTHON": str(self.folder / "driver" / "bin" / "python"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TMPDIR": str(temporary),
            "SPARK_LOCAL_DIRS": str(temporary),
            "HEADRACE_STATE_STORES": str(self.folder / "state-stores"),
        }
        with log.open("ab") as file:
            return subprocess.Popen(
                [str(self.folder / "driver" / "bin" / "python"), "-m", *program],
                env=self._environment() | environment,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
