"""Spark's daemon for Python workers of a code base: what its tests import is loaded before workers are forked.

A worker would otherwise spend 15 seconds of a core on importing TensorFlow. There are new workers after each failure,
and whenever a test computes for more than a minute without Spark, which then ends them.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from runpy import run_module

DAEMON = "headrace.runners.spark.worker.daemon"
"""The daemon of Spark sessions that headrace makes."""
PRELOADED = "HEADRACE_PRELOADED"
"""Environment variable with the names of the modules."""


def forget_ours() -> None:
    """Forget modules of ours, as the tests of many code bases are in a package `tests`, too."""
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]


if __name__ == "__main__":
    for name in os.environ[PRELOADED].split():
        import_module(name)
    forget_ours()
    run_module(DAEMON, run_name="__main__")
