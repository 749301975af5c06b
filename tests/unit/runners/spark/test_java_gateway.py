"""What Java says of an incubator module at each start is left out; everything else that it says is passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark import SparkConf

from headrace.runners.spark import java_gateway
from headrace.runners.spark.java_gateway import pass_on, start_java

NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


@contextmanager
def passing() -> Iterator[tuple[int, int]]:
    """What a process writes to, and what then can be read; the first is closed by the test."""
    (reading, writing), (passed, target) = os.pipe(), os.pipe()
    thread = threading.Thread(target=pass_on, args=(reading, target))
    thread.start()
    try:
        yield writing, passed
    finally:
        thread.join(10)
        assert not thread.is_alive()
        os.close(passed)
        os.close(target)


def passed_on(*pieces: bytes) -> bytes:
    with passing() as (writing, passed):
        for piece in pieces:
            os.write(writing, piece)
            time.sleep(0.01)
        os.close(writing)
        os.set_blocking(passed, True)
        time.sleep(0.05)
        return os.read(passed, 1 << 16)


@pytest.mark.parametrize(
    "pieces",
    [
        (NOISE, b"Error: no space\n", b"\tat there\n"),
        (NOISE[:20], NOISE[20:] + b"Error: no space\n\tat th", b"ere\n"),
        (b"Error: no space\n" + NOISE + b"\tat there\n",),
        (b"Error: no space\n\tat there\n", NOISE),
    ],
)
def test_one_line_of_the_start_is_left_out_however_it_comes(pieces: tuple[bytes, ...]) -> None:
    assert passed_on(*pieces) == b"Error: no space\n\tat there\n"


def test_a_line_without_an_end_is_passed_on_before_its_end_comes() -> None:
    with passing() as (writing, passed):
        os.write(writing, b"Password: ")
        assert os.read(passed, 100) == b"Password: "
        os.write(writing, b"WARNING: Using")
        os.close(writing)
    assert passed_on(b"WARNING: Using") == b"WARNING: Using", "the last line may have no end"


def test_what_user_code_says_later_is_its_own() -> None:
    said = b"".join(b"line %d\n" % number for number in range(100)) + NOISE + b"\xff\x00"
    assert passed_on(said) == said


def test_nobody_waits_for_a_reader_who_is_gone() -> None:
    reading, writing = os.pipe()
    passed, target = os.pipe()
    os.close(passed)
    thread = threading.Thread(target=pass_on, args=(reading, target))
    thread.start()
    os.write(writing, b"x" * 1000)
    os.close(writing)
    thread.join(10)
    assert not thread.is_alive()
    os.close(target)


def test_java_ends_and_says_nothing_after_ctrl_c_at_its_start(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ends with a stack trace about a deleted folder, which is no error of the program's."""
    stderrs: list[int] = []
    processes: list[subprocess.Popen[bytes]] = []

    def interrupted(conf: SparkConf, stderr: int) -> None:
        os.write(stderr, b"Picked up _JAVA_OPTIONS\n")
        stderrs.append(os.dup(stderr))
        proc = subprocess.Popen(["sleep", "600"], stderr=stderr)
        processes.append(proc)
        time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(java_gateway, "has_java", lambda: False)
    monkeypatch.setattr(java_gateway, "launch_java", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start_java(SparkConf(loadDefaults=False))
    assert processes[0].wait(10) == -signal.SIGKILL, "nobody would end it"
    os.write(stderrs[0], b"Exception in thread main\n\tat there\n")
    os.close(stderrs[0])
    passing = [thread for thread in threading.enumerate() if thread.name == "headrace-java-errors"]
    for thread in passing:
        thread.join(10)
    assert capfd.readouterr().err == "Picked up _JAVA_OPTIONS\n"
