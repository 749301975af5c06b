"""The named pipe by which processes wake a driver: what is heard, and that it ends whoever else has it open."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headrace.lowlevel.injectors.handover_log import NotificationPipe, notify


@pytest.fixture
def woken() -> threading.Event:
    return threading.Event()


def closed_in_time(pipe: NotificationPipe) -> bool:
    closing = threading.Thread(target=pipe.close, daemon=True)
    closing.start()
    closing.join(10)
    return not closing.is_alive()


def test_a_notification_of_a_known_process_is_heard_once(tmp_path: Path, woken: threading.Event) -> None:
    pipe = NotificationPipe(tmp_path / "pipe", ["one", "two"], woken.set)
    notify(tmp_path / "pipe", "unknown")
    notify(tmp_path / "pipe", "one")
    assert woken.wait(10)
    assert pipe.heard() == {"one"} and pipe.heard() == set()
    assert closed_in_time(pipe)
    # Nobody listens any more.
    notify(tmp_path / "pipe", "two")
    assert pipe.heard() == set()


def test_it_closes_while_another_reader_takes_everything(tmp_path: Path, woken: threading.Event) -> None:
    for _ in range(10):
        pipe = NotificationPipe(tmp_path / "pipe", ["one"], woken.set)
        over, other = threading.Event(), os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)

        def greedy(other: int = other, over: threading.Event = over) -> None:
            while not over.is_set():
                try:
                    os.read(other, 1024)
                except BlockingIOError:
                    over.wait(0.0001)

        thread = threading.Thread(target=greedy)
        thread.start()
        try:
            assert closed_in_time(pipe)
        finally:
            over.set()
            thread.join()
            os.close(other)


def test_no_descriptor_stays_open(tmp_path: Path, woken: threading.Event) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert closed_in_time(NotificationPipe(tmp_path / "pipe", ["one"], woken.set))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path, woken: threading.Event) -> None:
    pipe = NotificationPipe(tmp_path / "pipe", ["one"], woken.set)
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    for _ in range(20):
        os.write(writer, b"x" * 60_000)
    os.write(writer, b"\none\n")
    os.close(writer)
    assert woken.wait(10) and pipe.heard() == {"one"}
    assert closed_in_time(pipe)
