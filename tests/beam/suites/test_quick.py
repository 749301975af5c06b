"""The quick part of Beam's own tests, in a process where HeadraceRunner takes the place of Beam's runners."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_quick_suites() -> None:
    command = [sys.executable, "-m", "tests.beam.suites", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
