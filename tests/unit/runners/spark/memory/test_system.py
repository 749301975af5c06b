"""Systems that lack what Linux has: neutral answers, and nothing fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.runners.spark import memory, new_session


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What was asked of this system is not kept, and what the tests were told is not either."""
    cached = (memory.boot_id, memory.c_function)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


@pytest.fixture
def no_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(memory, "_STATM", tmp_path / "statm")
    monkeypatch.setattr(memory, "_BOOT_FILE", tmp_path / "boot_id")


@pytest.mark.usefixtures("no_linux")
def test_memory_without_linux() -> None:
    assert memory.own_bytes() == 0
    assert memory.c_function("malloc_trim") is None
    memory.give_back()
    memory.Trim().task_ends()


@pytest.mark.usefixtures("no_linux")
def test_macos_is_asked_for_its_last_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: tuple[str, ...], **how: object) -> SimpleNamespace:
        assert command == ("sysctl", "-n", "kern.bootsessionuuid")
        return SimpleNamespace(stdout="95C5-A1\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert memory.boot_id() == "95C5-A1"


@pytest.mark.usefixtures("no_linux")
def test_a_system_that_does_not_name_its_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_BOOT_COMMAND", ("there-is-no-such-command",))
    assert memory.boot_id() == ""
    monkeypatch.setattr(memory, "_BOOT_COMMAND", ("false",))
    memory.boot_id.cache_clear()
    assert memory.boot_id() == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is a file of Linux")
def test_linux_names_its_last_start() -> None:
    assert len(memory.boot_id()) == 36


def test_a_system_that_does_not_say_how_much_memory_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def sysconf(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(new_session.os, "sysconf", sysconf)
    assert new_session._driver_gib() == 1
