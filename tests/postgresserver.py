"""A PostgreSQL server for tests, on a folder of its own, reached through a socket in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def programs() -> Path | None:
    """Where the newest server's programs are; None if there is none."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(installed[-1]) if installed else shutil.which("initdb")
    return Path(found).parent if found else None


def server_or_skip() -> Iterator[str]:
    """For a fixture: the address of a server. Tests are skipped where none is installed; `./dev test` installs one."""
    if (found := programs()) is None:
        pytest.skip("no PostgreSQL server is installed")
    with server(found) as address:
        yield address


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of a server that runs meanwhile. It refuses to run as root, who has it run as `postgres`."""
    user = "postgres" if os.getuid() == 0 else None
    # Below pytest's own folders no other user may read.
    with tempfile.TemporaryDirectory(prefix="postgres-") as place:
        if user:
            shutil.chown(place, user)
        bin_, data = folder, f"{place}/data"

        def run(*command: str) -> None:
            subprocess.run(command, user=user, cwd=place, check=True, stdout=subprocess.DEVNULL)

        run(f"{bin_}/initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -k {place} -c fsync=off"
        run(f"{bin_}/pg_ctl", "-D", data, "-l", f"{place}/log", "-w", "-o", options, "start")
        try:
            yield f"host={place} user=postgres dbname=postgres"
        finally:
            run(f"{bin_}/pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
