"""The table of Beam's example programs, and a run of one of them in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("programs.toml")
OURS = "--runner=headrace.runners.beam.HeadraceRunner"
RUNNERS: Mapping[str, Sequence[str]] = {
    # What DirectRunner falls back to, without a search for Prism on the network.
    "beam": ["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"],
    "local": [OURS, "--headrace_runner=LocalRunner"],
    "spark": [OURS, "--headrace_runner=SparkRunner"],
}
"""Name of a runner -> flags that choose it."""
ALL_ON = "HEADRACE_BEAM_PROGRAMS"
"""Environment variable with the runner on which the tests run all programs, "local" or "spark"."""
Output = Mapping[str, Sequence[Sequence[str]]]
"""Name of an output without its shards -> its lines in order, of each the parts that are compared."""


@dataclass(frozen=True, slots=True)
class Program:
    """A main program of Beam's."""

    module: str
    """Its module below `apache_beam.examples`."""
    arguments: Sequence[str]
    """Its arguments, with `{inputs}` and `{outputs}` for folders."""
    parts: str = r"^.*$"
    """Pattern of the parts of a line that are compared."""
    header: bool = False
    """Whether each file begins with a header, so that there are as many as files."""
    quick: bool = False
    """Whether the ordinary tests run it."""

    def run(self, runner: str, inputs: Path, outputs: Path, seconds: int = 300) -> Output:
        """What it writes with a runner, a key of `RUNNERS`. Raises AssertionError with its errors if it fails."""
        arguments = [each.format(inputs=inputs, outputs=outputs) for each in self.arguments]
        command = [sys.executable, "-m", f"apache_beam.examples.{self.module}", *RUNNERS[runner], *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        assert done.returncode == 0, done.stderr[-5000:]
        return self._read(outputs)

    def _read(self, folder: Path) -> Output:
        lines: dict[str, list[list[str]]] = {}
        # Beam's own runner may leave a temporary folder.
        for file in filter(Path.is_file, folder.iterdir()):
            name = re.sub(r"-\d{5}-of-\d{5}", "", file.name)
            found = lines.setdefault(name, [])
            for line in file.read_text(encoding="utf-8").splitlines()[self.header and bool(found) :]:
                found.append(sorted(re.findall(self.parts, line)))
        return {name: sorted(found) for name, found in lines.items()}


def programs() -> Sequence[Program]:
    """The programs of the table."""
    return [Program(**row) for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["program"]]
