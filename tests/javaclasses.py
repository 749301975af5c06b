"""Makes an archive of the classes that Spark loads: `python -m tests.javaclasses PATH`.

A start of Spark with one job takes some 12 seconds of processor time, with the archive 6.4, and the tests have some
sixty starts. `./dev` makes the archive once, in 39 seconds, and gives Java the option to use it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sys
from headrace.runners.spark.new_session import local_session
from tests.spark import settings

session = local_session("local[2,4]")
settings.beside(session, sys.argv[1] + "/stream")
settings.frames(session, sys.argv[1] + "/frames")
"""
"""What tests on Spark do: a stream, a job with a shuffle and Python, and DataFrames in and out."""


def main(path: str) -> int:
    """Write the archive; nothing is left of one that was not completed."""
    from tempfile import TemporaryDirectory

    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    options = f"-XX:ArchiveClassesAtExit={unfinished} -XX:TieredStopAtLevel=1 -Xlog:cds=off -Xlog:cds+dynamic=off"
    with TemporaryDirectory() as folder:
        # Java writes the archive when it ends, after the program, and until then has the pipe.
        ran = subprocess.run(
            [sys.executable, "-c", _PROGRAM, folder],
            env=os.environ | {"SPARK_SUBMIT_OPTS": options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ran.returncode or not unfinished.exists():
        sys.stderr.buffer.write(ran.stdout)
        unfinished.unlink(missing_ok=True)
        return 1
    unfinished.rename(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
