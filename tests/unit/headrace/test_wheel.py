"""The wheel has all modules as files: the checkout has links to the layers, which Windows would not make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.installed import ROOT, check_contents


def test_the_wheel_has_no_links_and_all_layers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    check_contents(wheel)
