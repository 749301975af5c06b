"""Virtual environments of frameworks that cannot share ours: where they are, and whether they are complete.

They lie in `out/peers`, or in the folder that HEADRACE_PEERS names. `python -m benchmarks.peers.install` makes them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_STAMP = "installed.txt"


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of one framework.

    >>> print(Environment("nothing").lacking())
    not installed: python -m benchmarks.peers.install nothing
    """

    name: str

    @property
    def folder(self) -> Path:
        """Where it is."""
        return Path(os.environ.get("HEADRACE_PEERS", ROOT / "out" / "peers")).absolute() / self.name

    @property
    def requirements(self) -> Path:
        """The pinned packages that it is made of."""
        return Path(__file__).parent / "requirements" / f"{self.name}.txt"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def complete(self) -> bool:
        """Whether everything was installed, in the versions that are pinned now."""
        stamp = self.folder / _STAMP
        return stamp.is_file() and self.requirements.is_file() and stamp.read_text() == self.requirements.read_text()

    def finish(self) -> None:
        """Note that everything is installed."""
        (self.folder / _STAMP).write_text(self.requirements.read_text())

    def lacking(self) -> str | None:
        """Why nothing can run in it, with the remedy; None when it is complete."""
        return None if self.complete() else f"not installed: python -m benchmarks.peers.install {self.name}"


BYTEWAX = Environment("bytewax")
FLINK = Environment("flink")
PATHWAY = Environment("pathway")
POLARS = Environment("polars")
STREAMZ = Environment("streamz")
ENVIRONMENTS = {each.name: each for each in (BYTEWAX, FLINK, PATHWAY, POLARS, STREAMZ)}
