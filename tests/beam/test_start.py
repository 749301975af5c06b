"""What a small program of Beam's loads with `HeadraceRunner` in memory: its start-up is what its imports take."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = (
    *("pyspark", "py4j", "pyspark_connect", "lmdb", "rbloom"),
    *("deltalake", "pyiceberg", "pyarrow.dataset", "confluent_kafka", "datasketches"),
    *("matplotlib", "IPython", "rich", "typer", "starlette", "uvicorn", "opentelemetry"),
)
"""Packages that a run in memory has no use for; those that Beam has loaded itself do not count."""
MOST = 520
"""Modules of Headrace in such a run, of some 970; each takes half a millisecond."""
PROGRAM = """
import gc, json, sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

before, full = set(sys.modules), gc.get_stats()[2]["collections"]
from headrace.runners.beam import HeadraceRunner

full = gc.get_stats()[2]["collections"] - full
with beam.Pipeline(HeadraceRunner("LocalRunner"), PipelineOptions([])) as pipeline:
    _ = pipeline | beam.Create([("a", 1), ("a", 2)]) | beam.CombinePerKey(sum) | beam.Map(str)
# Names of Beam that Headrace answers for are modules without a file.
loaded = [name for name in set(sys.modules) - before if getattr(sys.modules[name], "__file__", None)]
print(json.dumps({"loaded": loaded, "full": full, "collects": gc.isenabled()}))
"""


@cache
def start() -> dict[str, object]:
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def test_nothing_heavy_is_loaded() -> None:
    loaded = start()["loaded"]
    assert not [name for name in loaded if name in HEAVY or name.partition(".")[0] in HEAVY]


def test_not_many_modules_are_loaded() -> None:
    own = [name for name in start()["loaded"] if name.startswith("headrace")]
    assert 100 < len(own) <= MOST


def test_imports_are_not_interrupted_by_full_collections_of_garbage() -> None:
    assert (start()["full"], start()["collects"]) == (0, True)
