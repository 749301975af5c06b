"""requirements-dev.lock pins versions, and nothing of the machine or the registry that it was made with."""

from __future__ import annotations

import re
from pathlib import Path

LOCK = Path(__file__).parents[3] / "requirements-dev.lock"


def test_every_line_is_a_name_and_a_version() -> None:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    assert lines
    wrong = [line for line in lines if not re.fullmatch(r"[a-z0-9._-]+==[0-9][\w.!+]*( ; [\w\s.'<>=!()]+)?", line)]
    assert not wrong
