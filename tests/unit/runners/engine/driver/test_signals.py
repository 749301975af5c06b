"""A run whose process is told to end: it commits its epoch, says so in a line, and exits with the signal's code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headrace.lowlevel import BoundedInjector
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.driver.signals import HEEDED
from headrace.runners.local import LocalRunner
from tests.unit.runners.engine.driver.test_pending_requests import Open, counting

SECONDS = 300
"""After which a process that should have ended has not."""

PROGRAM = """
import signal, sys, time
from pathlib import Path
import headrace as beam
from headrace.lowlevel import BaseInjector, Batch, Computation, Delivery, MemorySplit, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.driver import signals
from headrace.runners.engine.clock import SystemClock
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner

def note(what):
    # One write, so that a reader never sees half of it.
    print(what, flush=True)

class Endless(BaseInjector):
    max_delay = 0

    def start(self):
        return 0

    def plan(self, position, limit, splits):
        return Delivery([MemorySplit(Batch([position], [position]))], position + 1)

class Work(Computation):
    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        WORK(record.value)

    def teardown(self):
        note("down")

def quick(number):
    note(f"record {number}")
    time.sleep(0.02)

def long(number):
    note(f"record {number}")
    while number == 3:
        time.sleep(0.02)

def stubborn(number):
    while True:
        try:
            long(number)
            return
        except BaseException:
            note("ignored")

WORK = quick

def topology():
    made = Topology()
    made.injector("in", Endless())
    made.computation("work", Work(), {"in": lambda value: value})
    return made

def run():
    options = RunOptions(checkpoint="state", max_records_per_epoch=1)
    LocalRunner(SystemClock()).run_topology(topology(), options)
"""


@contextmanager
def started(folder: Path, *lines: str) -> Iterator[subprocess.Popen[str]]:
    """A program that goes on with these lines; it is gone in the end."""
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(PROGRAM + "\n" + "\n".join(lines) + "\n")
    with running([sys.executable, "program.py"], folder) as process:
        yield process


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    # A shell that starts the tests beside other things has them ignore Ctrl-C, and what they start does, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)

    def kill() -> None:
        """All of its group: what it has forked holds its pipes."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    watchdog = threading.Timer(SECONDS, kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    """Read what the program says up to this line."""
    assert process.stdout is not None
    said = []
    while (found := process.stdout.readline()) != f"{line}\n":
        said.append(found)
        assert found, (said, process.stderr.read() if process.stderr else "")


def committed(folder: Path) -> int:
    manifest = Checkpoint.read(ObjectStore(folder / "state")).manifest
    assert manifest is not None
    return manifest.epoch


CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.mark.parametrize("number", HEEDED)
def test_a_program_stops_at_the_end_of_its_epoch(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "run()", "note('behind')") as process:
        wait_for(process, "record 3")
        process.send_signal(number)
        out, err = process.communicate()
    epoch = committed(tmp_path)
    assert process.returncode == CODES[number]
    assert err == f"stopped by {number.name}: epoch {epoch} is committed; start it again to go on from there\n"
    # Every record that was begun is committed, user code was torn down, and the program did not go on.
    assert [*out.splitlines()][-2:] == [f"record {epoch - 1}", "down"] if "record" in out else out == "down\n"
    with started(tmp_path, "run()") as process:
        wait_for(process, f"record {epoch}")


@pytest.mark.parametrize("arguments", [[], ["--no-progress"]])
@pytest.mark.parametrize("number", HEEDED)
def test_the_command_stops_at_the_end_of_its_epoch(
    tmp_path: Path, number: signal.Signals, arguments: list[str]
) -> None:
    with started(tmp_path):
        pass
    command = [sys.executable, "-m", "headrace", "run", "program.py:topology", "--runner=LocalRunner"]
    options = ["--checkpoint=state", "-o", "max_records_per_epoch=1", *arguments]
    with running([*command, *options], tmp_path) as process:
        wait_for(process, "record 3")
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == CODES[number]
    told = f"stopped by {number.name}: epoch {committed(tmp_path)} is committed; start it again to go on from there"
    said = [line for line in err.splitlines() if not line.startswith("{")]
    assert said == [told]


@pytest.mark.parametrize("number", HEEDED)
def test_the_command_is_stopped_before_the_run(tmp_path: Path, number: signal.Signals) -> None:
    """There is a handler before anything large is imported: process 1 of a container gets no signal without one."""
    with started(tmp_path, f"signal.raise_signal({int(number)})", "time.sleep(300)"):
        pass
    for command in (["-m", "headrace", "run", "program.py:topology"], ["-c", EARLY.format(int(number))]):
        with running([sys.executable, *command], tmp_path) as process:
            out, err = process.communicate()
        assert (process.returncode, out, err) == (CODES[number], "", f"stopped by {number.name}\n")


EARLY = """
import signal, sys
class Stop:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] in ("typer", "pyarrow", "obstore", "numpy"):
            signal.raise_signal({0})
sys.meta_path.insert(0, Stop())
import headrace.__main__
"""
"""Loads the command; a signal comes with the first package that takes long."""


def test_a_fork_before_the_run_has_no_handler(tmp_path: Path) -> None:
    lines = [
        "from multiprocessing import get_context",
        "child = get_context('fork').Process(target=time.sleep, args=[300])",
    ]
    ends = ["child.start()", "child.terminate()", "child.join()", "note(child.exitcode)", "sys.exit(7)"]
    with started(tmp_path, *lines, *ends):
        pass
    with running([sys.executable, "-m", "headrace", "run", "program.py:topology"], tmp_path) as process:
        out, err = process.communicate()
    assert (process.returncode, out, err) == (7, "-15\n", "")


@pytest.mark.parametrize("level", ["1", "2"])
def test_the_command_without_asserts_and_docstrings(tmp_path: Path, level: str) -> None:
    with started(tmp_path):
        pass
    environment = os.environ | {"PYTHONOPTIMIZE": level}
    target = "from headrace.lowlevel import BoundedInjector, Topology\nmade = Topology()\n"
    target += "made.injector('in', BoundedInjector([(1, 1)]))\n"
    (tmp_path / "bounded.py").write_text(target)
    for arguments in (
        ["run", "bounded.py:made", "--runner=LocalRunner"],
        ["--help"],
        ["run", "--help"],
        ["inspect", "--help"],
    ):
        command = [sys.executable, "-m", "headrace", *arguments]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr


def test_without_a_checkpoint_it_says_that_nothing_is_kept(tmp_path: Path) -> None:
    with started(tmp_path, "LocalRunner(SystemClock()).run_topology(topology())") as process:
        wait_for(process, "record 3")
        process.terminate()
        assert process.communicate()[1] == "stopped by SIGTERM: without a checkpoint nothing of the run is kept\n"
    assert process.returncode == 143


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with started(tmp_path, "signals.REPEAT_SECONDS = 0", "WORK = long", "run()") as process:
        wait_for(process, "record 3")
        process.terminate()
        # Another one, as two of the same number that wait together are one; the system chooses their order.
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate()
    assert process.returncode in CODES.values()
    assert err.startswith("stopped by SIG") and err.count("\n") == 1
    assert "before the end of the epoch: epoch 3 is committed; start it again to go on from there" in err
    assert out == "down\n" and committed(tmp_path) == 3


def test_signals_that_come_together_are_one(tmp_path: Path) -> None:
    """As `timeout` sends them: one to its command, one to the command's process group."""
    with started(tmp_path, "run()") as process:
        wait_for(process, "record 3")
        process.terminate()
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate()
    told = f": epoch {committed(tmp_path)} is committed; start it again to go on from there\n"
    assert err in [f"stopped by {number.name}{told}" for number in HEEDED]


def test_an_epoch_that_does_not_end_is_left_after_a_while(tmp_path: Path) -> None:
    with started(tmp_path, "WORK = long", "signals.GRACE_SECONDS = 0.5", "run()") as process:
        wait_for(process, "record 3")
        process.terminate()
        out, err = process.communicate()
    assert process.returncode == 143 and out == "down\n"
    assert err.startswith("stopped by SIGTERM before the end of the epoch: epoch 3 is committed")


def test_user_code_that_does_not_let_go_is_left_too(tmp_path: Path) -> None:
    lines = ["signals.GRACE_SECONDS = 0.3", "signals.LAST_SECONDS = 0.3", "WORK = stubborn", "run()"]
    with started(tmp_path, *lines) as process:
        wait_for(process, "record 3")
        process.terminate()
        _, err = process.communicate()
    assert process.returncode == 143
    told = "epoch 3 is committed; start it again to go on from there"
    assert err == f"stopped by SIGTERM at once: {told}\n" and committed(tmp_path) == 3


def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    with started(tmp_path, "WORK = long", "run()") as process:
        wait_for(process, "record 3")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode in (130, -signal.SIGINT)
    assert out == "down\n" and err.splitlines()[-1] == "KeyboardInterrupt" and committed(tmp_path) == 3


def test_a_signal_that_the_program_handles_is_left_to_it(tmp_path: Path) -> None:
    lines = [
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)",
        "signal.signal(signal.SIGTERM, lambda *of: (note('mine'), sys.exit(7)))",
        "run()",
    ]
    with started(tmp_path, *lines) as process:
        wait_for(process, "record 3")
        process.send_signal(signal.SIGHUP)
        wait_for(process, "record 9")
        process.terminate()
        out, err = process.communicate()
    assert process.returncode == 7 and err == "" and out.endswith("mine\ndown\n")


def test_a_process_that_user_code_forks_dies_of_the_signal(tmp_path: Path) -> None:
    lines = [
        "import multiprocessing",
        "def forking(number):",
        "    child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,))",
        "    child.start()",
        "    child.terminate()",
        "    child.join()",
        "    note(f'child {child.exitcode}')",
        "WORK = forking",
        "run()",
    ]
    with started(tmp_path, *lines) as process:
        for _ in range(30):
            # Some get the signal when they have hardly begun.
            wait_for(process, "child -15")


class TestInThisProcess:
    def test_handlers_are_those_of_before(self) -> None:
        before = [signal.getsignal(number) for number in HEEDED]
        threads = set(threading.enumerate())
        LocalRunner().run_topology(counting(injector=_ended()))
        assert [signal.getsignal(number) for number in HEEDED] == before
        # A thread of an earlier test may have ended meanwhile.
        assert set(threading.enumerate()) <= threads

    def test_no_handler_is_set_outside_of_the_main_thread(self) -> None:
        seen: list[object] = []

        class Looking(Open):
            def plan(self, position: object, limit: int, splits: int) -> object:
                seen.extend(signal.getsignal(number) for number in HEEDED)
                return _ended().plan(0, limit, splits)

        running = LocalRunner().start(counting(injector=Looking()))
        running.wait(SECONDS)
        assert set(seen) == {signal.SIG_DFL}

    def test_a_signal_in_the_last_epoch_ends_the_program_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        class Last(Open):
            def plan(self, position: object, limit: int, splits: int) -> object:
                os.kill(os.getpid(), signal.SIGTERM)
                return _ended().plan(0, limit, splits)

        with pytest.raises(SystemExit) as stopped:
            LocalRunner().run_topology(counting(injector=Last()))
        assert stopped.value.code == 143
        assert capsys.readouterr().err == "stopped by SIGTERM: the input has ended, and nothing is left to do\n"


def _ended() -> BoundedInjector:
    return BoundedInjector([(0, 0)])
