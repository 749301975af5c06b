"""Two runs of pytest at once: the suite on Spark waits more than it computes, and the other one computes.

    python -m tests.beside ARGUMENTS OF ONE -- ARGUMENTS OF THE OTHER

What the second one says comes when the first is done, so that lines do not mix; from then on as it comes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

_SECONDS = 0.2
"""Between two looks at what the second one has said."""
_TIDYING_SECONDS = 30


def beside(first: Sequence[str], second: Sequence[str]) -> int:
    """Run two commands at once, to the end of both; the exit code of the first of them that failed, or 0."""
    with TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        with told.open("wb") as out:
            other = subprocess.Popen(second, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        one = subprocess.Popen(first)
        try:
            one.wait()
            with told.open("rb") as said:
                while other.poll() is None:
                    _pass_on(said)
                    time.sleep(_SECONDS)
                _pass_on(said)
        finally:
            _end(one)
            _end(other)
    return one.returncode or other.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """See that it has ended. One that Ctrl-C has reached at the terminal tidies up and goes by itself."""
    try:
        process.wait(_TIDYING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _pass_on(said: BinaryIO) -> None:
    sys.stdout.buffer.write(said.read())
    sys.stdout.buffer.flush()


def main(arguments: Sequence[str]) -> int:
    """Both, with these arguments."""
    at = arguments.index("--")
    pytest = (sys.executable, "-m", "pytest")
    return beside([*pytest, *arguments[:at]], [*pytest, *arguments[at + 1 :]])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
