"""Pages of documentation as programs: their blocks in order, and what they print held against what is said.

A block of `text` behind another says what that prints. A comment on the line before a block says what is special:

    <!-- on Spark -->            the block needs a Spark session: it is run in the Spark suite
    <!-- not run: REASON -->     it cannot be run here
    <!-- saved as FILE -->       the block is not run but written to a file, which later blocks use
    <!-- as it was -->           text that another run prints otherwise (times, process numbers)
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ON_SPARK, AS_IT_WAS, NOT_RUN, SAVED = "on Spark", "as it was", "not run", "saved as "
_BLOCK = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block."""

    language: str
    code: str
    remark: str
    """What the comment before it says."""
    line: int
    """Of the page, that its code starts after."""

    @property
    def is_run(self) -> bool:
        return self.language in ("python", "sh") and not self.remark.startswith((NOT_RUN, SAVED))


def blocks(text: str) -> list[Block]:
    """All of a page."""
    found = [
        Block(each[2], each[3], each[1] or "", text.count("\n", 0, each.start(3))) for each in _BLOCK.finditer(text)
    ]
    fences = len(re.findall(r"^ *```", text, re.MULTILINE))
    assert fences == 2 * len(found), "a fence has more than a language behind it, is indented, or has no end"
    return found


def pages() -> Iterator[Path]:
    """All pages with blocks."""
    yield from (page for page in sorted(DOCS.rglob("*.md")) if "```" in page.read_text(encoding="utf-8"))


def needs_spark(page: Path) -> bool:
    return any(block.remark == ON_SPARK for block in blocks(page.read_text(encoding="utf-8")))


def run_page(text: str, name: str, on_spark: bool = False) -> int:
    """Run a page in the current folder; returns how many blocks were run. Those on Spark are left out if it is not.

    Which files the page saves, it has to say, too.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    said: str | None = None
    count = 0
    for block in blocks(text):
        if block.is_run and (on_spark or block.remark != ON_SPARK):
            said = _printed(block, name, names) if block.language == "python" else _answered(block, name)
            count += 1
        elif block.remark.startswith(SAVED):
            file = block.remark.removeprefix(SAVED)
            assert f"`{file}`" in text, (
                f"{name}: the page does not say that the block behind line {block.line} is {file}"
            )
            Path(file).write_text(block.code, encoding="utf-8")
            said = None
        elif block.language == "text":
            assert said is None or block.remark == AS_IT_WAS or said == block.code, (
                f"{name}: the block before line {block.line} prints\n{said}"
            )
        else:
            said = None
    return count


def _printed(block: Block, name: str, names: dict[str, object]) -> str:
    """What a block of Python prints; a traceback names the line of the page."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * block.line + block.code, name, "exec"), names)
    return out.getvalue()


def _answered(block: Block, name: str) -> str:
    """What commands print. Where they have gone (`cd`), the page goes, too."""
    scripts = str(Path(sys.executable).parent)
    here = Path("page-went-to").absolute()
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    code = f"{block.code}\npwd > '{here}'"
    ran = subprocess.run(["bash", "-ec", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{name}: the commands behind line {block.line} end with {ran.returncode}\n{ran.stderr}"
    os.chdir(here.read_text(encoding="utf-8").rstrip("\n"))
    here.unlink()
    return ran.stdout
