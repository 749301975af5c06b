"""Programs in memory need nothing that Windows lacks: a process from which it is taken away (`tests/windows.py`)."""

from __future__ import annotations

import ntpath
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.target import _has_name
from headrace.sdk.io.files import file_naming, filesystem
from headrace.sdk.windows import IntervalWindow

ROOT = Path(__file__).parents[3]
PROGRAM = """
import runpy, sys
if "headrace.cli" not in sys.modules:
    runpy.run_path(sys.argv[1])["without_posix"]()
from headrace.cli import early_signals
early_signals.handle_signals()

import json
import headrace as beam
from headrace.io import fileio
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.window import FixedWindows, TimestampedValue


def timed(line):
    score = json.loads(line)
    return TimestampedValue((score["team"], score["points"]), score["time"])


def pipeline(pipeline):
    lines = pipeline | beam.io.ReadFromText("in/*.jsonl")
    sums = lines | beam.Map(timed) | beam.WindowInto(FixedWindows(60)) | "Sum" >> beam.CombinePerKey(sum)
    rows = sums | "Row" >> beam.Map(lambda summed: {"team": summed[0], "points": summed[1]})
    _ = rows | "Json" >> beam.io.WriteToJson("sums")
    _ = rows | "Parquet" >> beam.io.WriteToParquet("tables/sums")


if __name__ == "__main__":
    from pathlib import Path
    from headrace.cli.app import app
    from headrace.ui.pipelines import is_alive
    import os, socket
    assert is_alive(f"local runner on {socket.gethostname()}, process {os.getpid()}") is None
    Path("in").mkdir()
    for number in range(3):
        lines = [{"team": "red", "points": n, "time": 40 * n} for n in range(30)]
        Path("in", f"{number}.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
    arguments = ["--runner=LocalRunner", "--checkpoint=state", "--max_records_per_epoch=7"]
    for again in (False, True):
        app(["run", "program.py", *arguments, "--no-progress"], standalone_mode=False)
    app(["inspect", "state"], standalone_mode=False)
    app(["explain", "program.py", "--checkpoint=state"], standalone_mode=False)
    import pyarrow.parquet as pq
    written = [json.loads(line) for path in Path().glob("sums*") for line in path.read_text().splitlines()]
    total = sum(row["points"] for row in written)
    assert total == sum(row["points"] for row in pq.read_table("tables").to_pylist()) == 3 * sum(range(30)), total
    print("as it should be")
"""


def test_a_pipeline_with_a_checkpoint_needs_nothing_of_posix(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "program.py", str(ROOT / "tests" / "windows.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "as it should be", done.stdout
    assert "done: 0" not in done.stdout


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (r"C:\scores\prog.py", False),
        ("C:/scores/prog.py", False),
        (r"C:\prog.py:live", True),
        ("C:/prog.py:live", True),
    ],
)
def test_the_letter_of_a_drive_is_no_module(monkeypatch: pytest.MonkeyPatch, target: str, named: bool) -> None:
    monkeypatch.setattr("headrace.cli.target.os.sep", "\\")
    monkeypatch.setattr("headrace.cli.target.os.altsep", "/")
    assert _has_name(target) is named


@pytest.mark.parametrize("pattern", [r"C:\data\in\*.txt", "C:/data/in/*.txt"])
def test_paths_of_files_have_slashes(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.setattr("headrace.sdk.io.path_patterns.os.sep", "\\")
    monkeypatch.setattr(filesystem, "abspath", ntpath.normpath)
    search = filesystem.Search.of(pattern)
    assert search.folder == "C:/data/in"
    assert search.matches(search.folder, None, "a.txt") and not search.matches(search.folder, None, "a.csv")
    assert filesystem.absolute(pattern) == "C:/data/in/*.txt"


def test_names_of_windows_have_no_colons(monkeypatch: pytest.MonkeyPatch) -> None:
    naming, window = file_naming.default_file_naming("sums"), IntervalWindow(0, 60)
    assert naming(window, None, 0, 1, None, None) == "sums-1970-01-01T00:00:00-1970-01-01T00:01:00-00000-of-00001"
    monkeypatch.setattr(sys, "platform", "win32")
    assert naming(window, None, 0, 1, None, None) == "sums-1970-01-01T00-00-00-1970-01-01T00-01-00-00000-of-00001"
