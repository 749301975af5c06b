"""What worker processes print comes out where the driver prints, whole and in order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runners.spark.worker.printed_output import PrintedOutput, printing_to

WORKER = """
import os, subprocess, sys
from headrace.runners.spark.worker.printed_output import printing_to
print("before")
with printing_to(sys.argv[1]):
    for number in range(int(sys.argv[2])):
        print(f"{sys.argv[3]} {number} é")
    sys.stdout.flush()
    os.write(1, b"bytes\\n")
    subprocess.run([sys.executable, "-c", "print('child')"])
    print("no end", end="")
print("after")
"""


def worker(path: str, lines: int, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, path, str(lines), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_all_that_two_processes_print_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    printed = PrintedOutput()
    many = 20_000
    workers = [worker(printed.path, many, name) for name in "ab"]
    assert [process.communicate(timeout=120)[0] for process in workers] == ["before\nafter\n"] * 2
    printed.close()
    lines = capsys.readouterr().out.replace("no end", "no end\n").splitlines()
    for name in "ab":
        assert [line for line in lines if line.startswith(f"{name} ")] == [f"{name} {n} é" for n in range(many)]
    assert sorted(line for line in lines if line[1] != " ") == ["bytes", "bytes", "child", "child", "no end", "no end"]
    assert not Path(printed.path).parent.exists()


def test_what_was_printed_is_there_after_draining(capfd: pytest.CaptureFixture[str]) -> None:
    """In this process, as a task does it: standard output is the driver's own again behind it."""
    printed = PrintedOutput()
    for number in range(3):
        with printing_to(printed.path):
            os.write(1, f"epoch {number}\n".encode())
        printed.drain()
        print(f"driver {number}")
    printed.close()
    assert capfd.readouterr().out.splitlines() == [f"{who} {n}" for n in range(3) for who in ("epoch", "driver")]


def test_where_nobody_listens_all_is_as_before(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for path in ("", str(tmp_path / "none")):
        with printing_to(path):
            os.write(1, b"here\n")
    assert capfd.readouterr().out == "here\nhere\n"


def test_an_output_that_is_closed_or_cannot_have_a_letter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for encoding, found in (("ascii", "\\xe9\n"), ("utf-8", "é\n")):
        with (tmp_path / encoding).open("w", encoding=encoding) as output:
            monkeypatch.setattr(sys, "stdout", output)
            printed = PrintedOutput()
            with printing_to(printed.path):
                os.write(1, "é\n".encode())
            printed.close()
            monkeypatch.undo()
        assert (tmp_path / encoding).read_text(encoding) == found
    monkeypatch.setattr(sys, "stdout", output)
    printed = PrintedOutput()
    with printing_to(printed.path):
        os.write(1, b"nobody reads it\n")
    printed.close()


def test_a_long_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (long := tmp_path / ("x" * 120)).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    printed = PrintedOutput()
    assert len(printed.path) < 104
    printed.close()
    assert not list(long.iterdir())
