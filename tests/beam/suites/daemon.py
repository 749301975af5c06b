"""Spark's daemon for Python workers in the suites: Beam and what its tests import is loaded before workers are forked.

A worker would otherwise spend a second on importing Beam, and a test has new workers after each failure.
"""

from __future__ import annotations

import sys
import unittest.mock
from importlib import import_module
from runpy import run_module

from tests.beam.suites.records import share_records

DAEMON = "headrace.runners.spark.worker.daemon"
"""The daemon of Spark sessions that headrace makes."""
PRELOADED = ("parameterized", "pytest", "hamcrest", "pandas", "pyarrow", "apache_beam.testing.util")
"""`parameterized` first, see `use_mock`."""


def use_mock() -> None:
    """Have `import mock` find the standard library's module, of which that package is the form for old Pythons.

    `parameterized`, which treats that package in a way of its own, is imported first.
    """
    import_module("parameterized")
    sys.modules.setdefault("mock", unittest.mock)


if __name__ == "__main__":
    use_mock()
    for name in PRELOADED:
        import_module(name)
    share_records()
    run_module(DAEMON, run_name="__main__")
