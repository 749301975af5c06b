"""What is released, tried as a user gets it: `python -m tests.installed [PYTHON ...]`.

Wheel and source distribution are built into out/dist. For each interpreter (by default python3.11, 3.12 and 3.13, those
that there are) the wheel is installed into an empty environment, and the programs below run there, away from the
checkout. Nothing of the development environment can be seen by them.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "out" / "dist"
PYTHONS = ("python3.11", "python3.12", "python3.13")
PIPELINE = """
import sys
import headrace as beam
from headrace.transforms.window import FixedWindows, TimestampedValue
assert "site-packages" in beam.__file__, beam.__file__

if __name__ == "__main__":
    for runner in sys.argv[1:]:
        with beam.Pipeline(runner) as pipeline:
            scores = pipeline | beam.Create([("red", 5, 10), ("blue", 7, 20), ("red", 3, 30), ("red", 4, 75)])
            timed = scores | beam.Map(lambda score: TimestampedValue(score[:2], score[2]))
            sums = timed | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum)
            _ = sums | beam.io.ForeachEpoch(lambda epoch, rows: print(runner, sorted(rows)))
"""
PRINTED = "{} [('blue', 7), ('red', 4), ('red', 8)]\n"
EVERY_MODULE = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
from publicapi import public_modules
for name in public_modules():
    try:
        importlib.import_module(name)
    except ImportError as error:
        assert "pip install 'headrace[" in str(error), f"{name}: {error!r}"
"""


def build() -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT], check=True)
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, source


def check_contents(wheel: Path) -> None:
    """Raise `AssertionError` if files are missing or symbolic links, or the page on a package index has dead links."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        linked = [info.filename for info in archive.infolist() if stat.S_ISLNK(info.external_attr >> 16)]
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    assert not linked, f"Windows makes no links: {linked}"
    assert {f"headrace/{layer}/__init__.py" for layer in ("lowlevel", "runners", "sdk")} <= set(names)
    assert "headrace/py.typed" in names, "type checkers would not see the annotations"
    assert all(name.startswith(("headrace/", "headrace-")) for name in names), names
    links = re.findall(r"\]\((?!https?://)[^)]*\)", text)
    assert not links, links


def try_out(python: str, package: Path) -> None:
    """Install a wheel, or a source distribution, into an empty environment and run the programs; then with Spark."""
    with tempfile.TemporaryDirectory(prefix="headrace-installed-") as home:
        folder, program = Path(home), Path(home, "program.py")
        subprocess.run([python, "-m", "venv", folder / "env"], check=True)
        own = folder / "env" / "bin"
        install = (own / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        program.write_text(PIPELINE, encoding="utf-8")
        for extra, runner in (("", "LocalRunner"), ("[spark]", "SparkRunner")):
            _run(folder, *install, f"{package}{extra}")
            _run(folder, own / "python", "-m", "pip", "check")
            printed = _run(folder, own / "python", "-I", program, runner)
            assert printed == PRINTED.format(runner), printed
            if not extra:
                _check_without_spark(folder, own / "python", program)
        _run(folder, own / "python", "-I", "-c", EVERY_MODULE, ROOT / "tests")
        _run(folder, own / "headrace", "new", "scores")
        done = _run(folder / "scores", own / "headrace", "run", "scores.py", "--runner=LocalRunner", "--no-progress")
        assert "4 records in" in done, done


def _check_without_spark(folder: Path, python: Path, program: Path) -> None:
    """Raise `AssertionError` unless the runner on Spark says what to install."""
    refused = subprocess.run([python, "-I", program, "SparkRunner"], cwd=folder, capture_output=True, text=True)
    assert "pip install 'headrace[spark]'" in refused.stderr.splitlines()[-1], refused.stderr
    packages = _run(folder, python, "-m", "pip", "list", "--format=freeze").lower()
    assert "pyspark" not in packages and "pandas" not in packages, packages


def _run(folder: Path, *command: str | Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def _runs(python: str) -> bool:
    """Whether an interpreter is there. Version managers put programs in the path that only say that it is not."""
    path = shutil.which(python)
    return path is not None and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0


def main(pythons: list[str]) -> None:
    """Build, and try the wheel with each interpreter and the source distribution with the first."""
    wheel, source = build()
    check_contents(wheel)
    found = list(filter(_runs, pythons or PYTHONS))
    if missing := sorted(set(pythons or PYTHONS).difference(found)):
        print(f"not tried, as they are not here: {', '.join(missing)}")
    for number, python in enumerate(found):
        for package in (wheel, source) if number == 0 else (wheel,):
            try_out(python, package)
            print(f"{python}, {package.name}: as it should be")


if __name__ == "__main__":
    main(sys.argv[1:])
