"""Credentials on Spark: driver and workers each ask their own function again and again, as keys live for seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.s3 import S3

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]
PROGRAM = """
import os
import sys
import time

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions


def slowly(number):
    time.sleep(0.25)
    return number


def sums(place):
    with beam.Pipeline("SparkRunner", PipelineOptions()) as pipeline:
        numbers = pipeline | beam.Create(range(60)) | beam.Map(slowly)
        _ = numbers | beam.Map(lambda n: (n % 2, n)) | beam.CombinePerKey(sum) | beam.io.WriteToText(f"{place}/sums")


def read(place):
    with beam.Pipeline("LocalRunner", argv=["--credentials=tests.rotating_keys:keys"]) as pipeline:
        _ = pipeline | beam.io.ReadFromText(f"{place}/sums*") | beam.Map(print)


if __name__ == "__main__":
    place = sys.argv.pop(1)
    print("driver", os.getpid())
    sums(place)
    read(place)
"""


def test_driver_and_workers_renew_their_keys(s3: S3, tmp_path: Path) -> None:
    place, program = s3.new_place(), tmp_path / "renewing.py"
    program.write_text(PROGRAM)
    s3.ask_for_keys(3.0)
    options = [f"--checkpoint={place}/state", "--credentials=tests.rotating_keys:keys", "--max_records_per_epoch=10"]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    ran = subprocess.run(
        [sys.executable, str(program), place, *options, "--task_idle_seconds=0"],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    driver, *lines = ran.stdout.splitlines()
    assert sorted(lines)[-2:] == [str((n % 2, sum(range(60)[n::2]))) for n in (0, 1)]
    issued, refused = s3.key_use()
    asked = issued.pop(driver.split()[1])
    assert refused == 0
    assert asked >= 2 and max(issued.values()) >= 2, "the driver, and a worker"
    assert "secret-KEY" not in ran.stdout + ran.stderr
