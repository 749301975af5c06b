"""The guides are run: the Python of a page in order, as one program, and what it prints held against what is said."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(text: str, name: str) -> int:
    """Run the Python of a page; a block of text behind one says what it prints. Returns how many were run."""
    names: dict[str, object] = {"__name__": "__main__"}
    said, count = "", 0
    for found in _BLOCK.finditer(text):
        language, told, code = found.groups()
        if language == "python" and "not run" not in told:
            out = io.StringIO()
            line = text.count("\n", 0, found.start(3))
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * line + code, name, "exec"), names)
            said, count = out.getvalue(), count + 1
        elif language == "text":
            assert said == code, f"{name}: the block before line {text.count(chr(10), 0, found.start())} prints\n{said}"
    return count


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_guide_is_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(encoding="utf-8"), str(page))


def test_a_guide_that_is_wrong_fails() -> None:
    with pytest.raises(AssertionError, match="prints"):
        run_page("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page")
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "page")
    assert run_page("```python\nprint(1)\n```\n\n```text\n1\n```\n", "page") == 1
