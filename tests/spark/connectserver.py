"""A server of Spark Connect on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import pytest
from pyspark.sql import DataFrame

needs_connect = pytest.mark.skipif(
    find_spec("grpc_status") is None or not hasattr(DataFrame, "repartitionById"),
    reason="Spark Connect needs pyspark 4.1 and the packages of the extra `connect`",
)
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SECONDS = 120
"""How long a server may take until it listens."""


@contextmanager
def connect_server(
    folder: Path, python: str = sys.executable, wanted: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """Run a server with two tasks at once, of the pyspark that an interpreter has; yields its address."""
    port = free_port()
    where = "import pyspark; print(pyspark.__path__[0])"
    home = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    settings = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    settings |= wanted
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environment = {
        **os.environ,
        **dict.fromkeys(("TMPDIR", "SPARK_LOCAL_DIRS", "SPARK_LOG_DIR"), str(folder)),
        "HEADRACE_STATE_STORES": str(folder / "state-stores"),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
    }
    environment.pop("SPARK_REMOTE", None)
    # `sbin/start-connect-server.sh`, which pip's older packages of pyspark lack, does the same.
    submit = ["bash", str(home / "bin" / "spark-submit"), "--class", _SERVER, "--master", "local[2,4]"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*submit, *options, "--driver-java-options", "-XX:TieredStopAtLevel=1"],
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(port, server, folder / "server.log")
        yield f"sc://localhost:{port}"
    finally:
        # Java has started Python; they are one group.
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def _wait(port: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("localhost", int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"the server does not listen: {log.read_text()[-3000:]}")
