"""A terminal with a shell in it, as a person has it before them: tmux, which draws what programs print."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

PROGRAM = shutil.which("tmux")
"""`./dev test` installs Debian's."""
_PATIENCE = 90.0
"""Seconds until what should appear counts as missing; a busy machine takes its time."""


class Terminal:
    """So many columns and lines, in a folder; a context manager."""

    def __init__(self, folder: Path, columns: int, lines: int = 30) -> None:
        self._socket = str(folder / "tmux")
        # Its own server, which ends with it, and no settings of whoever runs the tests.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        shell = f"env -u NO_COLOR PS1='$ ' PATH='{path}' TERM=screen-256color bash --norc --noprofile"
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "-c", str(folder), shell
        )

    def _tmux(self, *arguments: str) -> str:
        assert PROGRAM is not None, "no tmux"
        command = [PROGRAM, "-S", self._socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._tmux("kill-server")

    def type(self, line: str) -> None:
        """Type a line, and Enter."""
        self._tmux("send-keys", "-l", line)
        self._tmux("send-keys", "Enter")

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._tmux("send-keys", "C-c")

    def lines(self) -> list[str]:
        """All lines, those that have scrolled away first; without empty ones."""
        return [line for line in self._tmux("capture-pane", "-p", "-S", "-").splitlines() if line.strip()]

    def wait(self, wanted: Callable[[list[str]], bool]) -> list[str]:
        """The lines as soon as they are as wanted."""
        end = time.monotonic() + _PATIENCE
        while not wanted(lines := self.lines()):
            assert time.monotonic() < end, "\n".join(["the terminal shows:", *lines])
            time.sleep(0.05)
        return lines
