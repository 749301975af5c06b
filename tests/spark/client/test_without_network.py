"""Workers without a network: a folder that driver and executors share is enough, and a bucket is refused at the start.

The workers of this server are in a network namespace of their own, in which nothing can be reached, as in the sandbox
of a platform. They talk to Java over a Unix socket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3 import S3
from tests.spark.connectserver import connect_server, needs_connect

ROOT = Path(__file__).parents[3]


def can_unshare() -> bool:
    """Whether this machine gives its users namespaces."""
    try:
        return not subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode
    except OSError:
        return False


pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    needs_connect,
    pytest.mark.skipif(not can_unshare(), reason="needs namespaces (unshare -rn)"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    python = folder / "python-without-network"
    python.write_text(f'#!/bin/sh\nexec unshare -rn {sys.executable} "$@"\n')
    python.chmod(0o755)
    with connect_server(folder, str(python), {"spark.python.unix.domain.socket.enabled": "true"}) as address:
        yield address


PROGRAM = """
import json
import socket
import sys

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.window import FixedWindows, TimestampedValue


def reached(number):
    try:
        socket.create_connection(("127.0.0.1", int(sys_port)), timeout=5).close()
    except OSError:
        return "nothing"
    return "the driver's machine"


place, sys_port = sys.argv[1:]
found = []
arguments = PipelineOptions(["--checkpoint=" + place, "--max_records_per_epoch=50", "--task_idle_seconds=0"])
with beam.Pipeline("SparkRunner", arguments) as pipeline:
    numbers = pipeline | beam.Create(range(100)) | beam.Map(lambda n: TimestampedValue((reached(n), n), n))
    sums = numbers | beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum)
    sums | beam.io.ForeachEpoch(lambda epoch, rows: found.extend(rows))
print(json.dumps(sorted(found)))
"""


def run(server: str, s3_server: S3, folder: Path, place: str) -> subprocess.CompletedProcess[str]:
    (folder / "main.py").write_text(PROGRAM)
    environment = os.environ | s3_server.environment | {"SPARK_REMOTE": server, "PYTHONPATH": str(ROOT)}
    port = s3_server.url.rpartition(":")[2]
    command = [sys.executable, str(folder / "main.py"), place, port]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_shared_folder_will_do(server: str, s3_server: S3, tmp_path: Path) -> None:
    ran = run(server, s3_server, tmp_path, str(tmp_path / "place"))
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [["nothing", sum(range(60))], ["nothing", sum(range(60, 100))]]


def test_a_bucket_is_refused_before_anything_is_read(server: str, s3_server: S3, tmp_path: Path) -> None:
    """The driver reaches it."""
    ran = run(server, s3_server, tmp_path, s3_server.new_place())
    assert ran.returncode
    assert "SparkSetupError: the executors cannot read the checkpoint s3://bucket-" in ran.stderr, ran.stderr
    assert "a folder that driver and executors share; nothing has been read" in ran.stderr
