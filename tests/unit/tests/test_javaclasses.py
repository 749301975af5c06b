"""The archive of Spark's classes is whole or is not there; a run of the tests goes on without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import javaclasses

BROKEN = """#!/bin/sh
for each; do
    case $each in
        -XX:ArchiveClassesAtExit=*)
            : >"${{each#*=}}"
            exit 1
            ;;
    esac
done
exec "{}/bin/java" "$@"
"""
"""A Java that begins an archive, and fails."""


def test_nothing_is_left_where_java_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(BROKEN.format(os.environ.get("JAVA_HOME") or "/usr"))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    target = tmp_path / "archives" / "a.jsa"
    assert javaclasses.main(str(target)) == 1
    assert not list(target.parent.iterdir())
    assert b"Java" in capfdbinary.readouterr().err
