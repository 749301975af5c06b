"""What holds for every test: randomized tests take their time, and print what repeats a failure."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.faults.figures import Collector
from tests.faults.tally import pytest_runtest_makereport, tally
from tests.kafkacluster import kafka, topic
from tests.kafkafaults import faulty
from tests.other_versions import lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.lowlevel import Topology
    from headrace.lowlevel.storage.object_store import ObjectStorage
    from headrace.runners.engine.options import RunResult
    from tests.s3 import S3

# Of the fault suite, and a broker, for tests everywhere.
__all__ = ["faulty", "kafka", "pytest_runtest_makereport", "tally", "topic"]

# A test class that several modules make their own says what it compared, too.
pytest.register_assert_rewrite("tests.article")

# The same examples on every run, so that a change is judged by what it changed; fresh ones in `./dev soak`, where a
# failure prints its @reproduce_failure line.
# The number of examples for each property: HEADRACE_SOAK in a long run (`./dev soak`), HEADRACE_EXAMPLES in a quick one
# (`./dev check`), else hypothesis' own default: with 40, half of the
# properties no longer found a trigger that fires a pane too late (tests/README.md).
SOAK = os.environ.get("HEADRACE_SOAK")
EXAMPLES = int(SOAK or os.environ.get("HEADRACE_EXAMPLES") or 100)
settings.register_profile("headrace", max_examples=EXAMPLES, deadline=None, derandomize=not SOAK, print_blob=True)
settings.load_profile("headrace")


def pytest_configure(config: pytest.Config) -> None:
    """Have the figures of the fault suite collected if somebody wants them (`./dev faults`)."""
    # Under nohup SIGHUP is ignored, and behind a shell's & SIGINT: also by the programs that tests start.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    target = os.environ.get("HEADRACE_FAULTS_REPORT")
    if target and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(Path(target), os.environ.get("HEADRACE_FAULTS") or "quick"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs newer packages than those that are here."""
    for item in items:
        if (reason := lacking(item.nodeid)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_sessionstart() -> None:
    """Modules and tests are there to stay: to look for garbage among them takes a third of their collection."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, but not again and again in what the collection has made."""
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of a test process, as headrace makes them, with two tasks at once."""
    # Imported only here, so that tests without Spark need no Java.
    from headrace.runners.spark.new_session import local_session

    session = local_session("local[2,4]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    """A local S3 server, one for all tests of a process."""
    from tests.s3 import start

    server, process = start()
    yield server
    process.kill()
    process.wait()


@pytest.fixture
def s3(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """That server without faults, with the environment that reaches it."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    yield s3_server
    s3_server.ask_for_keys(None)
    s3_server.fail()


@pytest.fixture(params=["directory", "memory", "dict", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStorage:
    """An empty store of each kind."""
    from headrace.lowlevel.storage.object_store import ObjectStore
    from tests.stores import DictStore

    if request.param == "s3":
        return ObjectStore(request.getfixturevalue("s3").new_place())
    places = {"directory": lambda: ObjectStore(tmp_path / "new"), "memory": lambda: ObjectStore("memory://")}
    return places.get(request.param, DictStore)()


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def run(request: pytest.FixtureRequest) -> Callable[[Topology], RunResult]:
    """Runs a topology to the end of its input, on each runner in turn."""
    if request.param == "local":
        from headrace.runners.local import LocalRunner

        return LocalRunner(intervals=2).run_topology
    from headrace.runners.spark import SparkRunner

    return SparkRunner(request.getfixturevalue("spark"), intervals=2).run_topology


_ARGUMENTS = list(sys.argv)


def pytest_runtest_teardown() -> None:
    """Commands that were run in this process have left their program's arguments."""
    sys.argv = list(_ARGUMENTS)
