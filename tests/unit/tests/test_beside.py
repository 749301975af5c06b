"""Two suites at once: both run to their end, neither's failure is lost, and their lines do not mix."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.beside import beside

WAITS = """
import sys, time
from pathlib import Path
mine, others, code = sys.argv[1:]
print(mine, "begins", flush=True)
Path(mine).touch()
while not Path(others).exists():
    time.sleep(0.01)
print(mine, "ends")
sys.exit(int(code))
"""


@pytest.mark.parametrize(("codes", "expected"), [((0, 0), 0), ((1, 0), 1), ((0, 2), 2), ((1, 2), 1)])
def test_each_waits_for_the_other_and_both_are_heard(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    codes: tuple[int, int],
    expected: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-c", WAITS]
    assert beside([*command, "a", "b", str(codes[0])], [*command, "b", "a", str(codes[1])]) == expected
    assert capfd.readouterr().out.split("\n") == ["a begins", "a ends", "b begins", "b ends", ""]
