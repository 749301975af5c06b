"""`pip install headrace` alone: programs in memory and the commands need neither PySpark nor pandas nor any extra."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ABSENT = (
    "pyspark py4j grpc pandas pytz apache_beam fastavro deltalake pyiceberg confluent_kafka matplotlib fast_sugiyama "
    "prometheus_client opentelemetry starlette uvicorn"
)
WITHOUT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT.split()!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
PROGRAM = """
from datetime import UTC, datetime
import headrace as beam
from headrace.transforms.window import FixedWindows, TimestampedValue

SCORES = [("red", 5, 10), ("blue", 7, 20), ("red", 3, 30), ("red", 4, 75)]

def pipeline(pipeline):
    scores = pipeline | beam.Create(SCORES) | beam.Map(lambda score: TimestampedValue(score[:2], score[2]))
    sums = scores | beam.WindowInto(FixedWindows(60)) | "Sum" >> beam.CombinePerKey(sum)
    _ = sums | "Row" >> beam.Map(lambda s: {"team": s[0], "n": s[1]}) | beam.io.WriteToParquet("sums/part")

def row(element):
    return beam.Row(team=element["team"], at=datetime(2026, 11, 28, 7, 30, element["n"], tzinfo=UTC))
"""
MORE = """
import headrace as beam
from headrace.runners.interactive import interactive_beam as ib
import program

with beam.Pipeline("LocalRunner") as pipeline:
    rows = pipeline | beam.io.ReadFromParquet("sums/part*") | beam.Map(program.row)
    _ = rows | beam.io.WriteToParquet("times/part")
p = beam.Pipeline("LocalRunner")
rows = ib.collect(p | beam.io.ReadFromParquet("times/part*", as_rows=True))
print(sorted((row.team, f"{row.at:%M:%S}") for row in rows))
assert not [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "pandas")]
"""
LINE = "pip install 'headrace[spark]'"


def python(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "from headrace.__main__ import app\napp(prog_name='headrace')", *arguments)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program that has run in memory, with a checkpoint."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = command(folder, "run", "program.py", "--runner=LocalRunner", "--checkpoint=state", "--no-progress")
    assert (done.returncode, done.stdout) == (0, "done: 1 epochs, 4 records in, 3 out, 0 late, 0 dropped\n"), (
        done.stderr
    )
    return folder


def test_a_windowed_pipeline_and_times_from_parquet(project: Path) -> None:
    done = python(project, MORE)
    assert done.stdout == "[('blue', '30:07'), ('red', '30:04'), ('red', '30:08')]\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "inspect"),
        (["explain", "program.py", "--checkpoint=state"], "Sum"),
        (["inspect", "state"], "Sum"),
        (["draw", "program.py"], "Sum"),
        (["options", "program.py"], "--checkpoint"),
        (["new", "scores"], "scores.py"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands(project: Path, arguments: list[str], shown: str) -> None:
    done = command(project, *arguments)
    assert done.returncode == 0 and shown in done.stdout, done.stderr


def test_the_command_that_would_need_spark_says_what_to_type(project: Path) -> None:
    done = command(project, "run", "program.py")
    assert done.returncode == 2
    assert LINE in " ".join(done.stderr.split()) and "--runner=LocalRunner" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import headrace as beam\nwith beam.Pipeline() as p:\n    p | beam.Create([1])",
        "import headrace as beam\nwith beam.Pipeline('SparkRunner') as p:\n    p | beam.Create([1])",
        "from headrace.runners.spark import SparkRunner",
        "from headrace.runners.spark import WriteToSpark",
        "from headrace.runners.spark.runner import SparkRunner",
        "import headrace as beam\nfrom headrace.runners.interactive import interactive_beam as ib\n"
        "ib.collect(beam.Pipeline() | beam.Create([1]), runner='SparkRunner')",
    ],
    ids=["default", "named", "class", "sink", "module", "interactive"],
)
def test_what_needs_spark_says_what_to_type(tmp_path: Path, code: str) -> None:
    done = python(tmp_path, code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: SparkRunner") and LINE in done.stderr


def test_packages_that_come_with_headrace_alone() -> None:
    """A platform's own PySpark, pandas, and what only an extra needs, are left as they are."""
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    of_extras = {re.split(r"[\[><=]", requirement)[0] for requirement in chain(*extras.values())}
    alone = {requirement.split(">=")[0] for requirement in project["dependencies"]}
    assert {"pyspark", "pandas"} <= of_extras
    assert not of_extras & alone
    assert any(requirement.startswith("pyspark[sql]") for requirement in extras["spark"])
