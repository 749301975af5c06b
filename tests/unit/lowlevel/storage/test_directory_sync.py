"""Files are written to the disk itself, with what the system has for that."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from headrace.lowlevel.storage import directory_sync
from headrace.lowlevel.storage.object_store import ObjectStore

_FULL_SYNC = 51
"""The number of `F_FULLFSYNC` on macOS."""


@pytest.mark.parametrize("known", [True, False])
def test_macos_is_asked_for_more_than_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    asked: list[str] = []

    def control(descriptor: int, request: int) -> None:
        assert request == _FULL_SYNC
        asked.append("full")
        if not known:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(directory_sync, "_FULL_SYNC", _FULL_SYNC)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda descriptor: asked.append("fsync"))
    ObjectStore(tmp_path / "new").put("name", b"bytes")
    assert asked.count("full") >= 2, "the file and its folder"
    assert asked.count("fsync") == (0 if known else asked.count("full"))
