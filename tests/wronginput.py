"""What is said of wrong input: runs each program of `tests/golden/wrong_input.md`, and puts its error behind it.

    python -m tests.wronginput      writes the file anew, with the texts that there are now; read what has changed

A new case is a heading of its section and a block of Python, written into the file; the rest comes with the next run.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

import headrace as beam
from headrace import lowlevel
from headrace.cli.app import app
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.processing import worker
from headrace.lowlevel.user_errors import FULL
from headrace.lowlevel.vectorized import computation
from headrace.metrics import Metrics
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.testing import test_stream, util
from headrace.transforms import trigger, userstate, window

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests/golden/wrong_input.md"
LEFT_OUT = ROOT / "tests/golden/wrong_input_left_out.md"
_PACKAGES = (
    "sdk",
    "lowlevel",
    "runners",
    "headrace/absent_names",
    "headrace/cli",
    "headrace/options",
    "headrace/ui",
    "headrace/__init__.py",
    "headrace/plot.py",
)
_PROGRAM = "program.py"

Site = tuple[str, int]
"""A file below the root, and a line in it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program, and what it got."""

    code: str
    said: str
    sites: frozenset[Site]
    """Where the error was raised, and those that led to it."""


class NothingWrong(Exception):
    """The program of a case ran to its end."""


def _write(name: str, text: str | bytes) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def _without(*modules: str) -> None:
    """As if they were not installed, for as long as the program runs."""
    sys.modules.update(dict.fromkeys(modules))  # type: ignore[arg-type] - None is what import takes for missing


class CommandEnded(Exception):
    """A command ended with another code than 0; the text is what it said."""


def _command(line: str) -> None:
    result = CliRunner().invoke(app, shlex.split(line), prog_name="headrace", env={"COLUMNS": "100", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        said = "\n".join(line.strip(" │╭╮╰╯─") for line in result.stderr.splitlines())
        raise CommandEnded(f"exit code {result.exit_code}\n{said.strip()}") from _first_cause(result.exc_info)


def _first_cause(info: object) -> BaseException | None:
    return info[1] if isinstance(info, tuple) and isinstance(info[1], BaseException) else None


def _names(pipeline: beam.Pipeline) -> dict[str, object]:
    """What a program of a case has without importing it."""
    return {
        "__name__": "__main__",
        "beam": beam,
        "lowlevel": lowlevel,
        "pipeline": pipeline,
        "window": window,
        "trigger": trigger,
        "userstate": userstate,
        "util": util,
        "test_stream": test_stream,
        "Metrics": Metrics,
        "PipelineOptions": PipelineOptions,
        "RunOptions": RunOptions,
        "LocalRunner": LocalRunner,
        "write": _write,
        "command": _command,
        "without": _without,
    }


def tried(code: str) -> Case:
    """Run a program in an empty folder, and then its pipeline if it has one."""
    pipeline = beam.Pipeline("LocalRunner")
    path, modules = list(sys.path), dict(sys.modules)
    told: set[Site] = set()
    with ExitStack() as around:
        folder = around.enter_context(tempfile.TemporaryDirectory())
        around.enter_context(chdir(folder))
        around.enter_context(patch.dict(os.environ, {"HEADRACE_RUNNER": "local", FULL: "1"}))
        around.enter_context(_step_errors_tell(told))
        # Many enough, and sooner.
        for module in (worker, computation):
            around.enter_context(patch.object(module, "ENDLESS", 1_000))
        for name in ("HEADRACE_CHECKPOINT", "HEADRACE_CHECKPOINT_KEY"):
            os.environ.pop(name, None)
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                exec(compile(code, _PROGRAM, "exec"), _names(pipeline))
                if pipeline.steps:
                    pipeline.run()
        except (Exception, SystemExit) as error:
            return Case(code, _said(error, folder), frozenset(_sites(error)) | frozenset(told))
        finally:
            sys.path[:] = path
            # What the program has said to be missing is there again.
            sys.modules.update({name: module for name, module in modules.items() if sys.modules.get(name) is None})
            for name in [name for name, module in sys.modules.items() if module is None and name not in modules]:
                del sys.modules[name]
            for name in sys.modules.keys() - modules:
                if (getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
                    del sys.modules[name]
    raise NothingWrong(code)


@contextmanager
def _step_errors_tell(told: set[Site]) -> Iterator[None]:
    """While it is on, an error of a step leaves where it was made and what it is about: it travels without that."""
    make = StepError.__init__

    def noting(self: StepError, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type] - as they are
        told.update(_sites(sys.exc_info()[1]))
        stack = traceback.extract_stack()
        told.update(site for frame in stack if (site := _site(frame.filename, frame.lineno or 0)) is not None)

    with patch.object(StepError, "__init__", noting):
        yield


def _said(error: BaseException, folder: str) -> str:
    kind = "" if isinstance(error, CommandEnded) else f"{type(error).__name__}: "
    text = f"{kind}{error}"
    # What Python shows of the way to the error differs from version to version.
    text = re.sub(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*", "", text)
    for place in {folder, str(Path(folder).resolve())}:
        text = text.replace(f"{place}/", "").replace(place, "HERE")
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", text).replace(str(ROOT), "ROOT")
    text = re.sub(r"(size_in_bytes|last_updated_in_seconds)=[\d.]+", r"\1=…", text)
    # Ports that were free, or were not.
    text = re.sub(r"\b(127\.0\.0\.1:|port )\d{4,}", r"\1…", text)
    lines = [line.strip(_FRAME) for line in text.splitlines() if line.strip(_FRAME)]
    # Notes of the error follow the line with its class.
    is_note = len(lines) > 2 and re.match(r"[\w.]+: ", lines[-1]) is None and re.match(r"[\w.]+: ", lines[-2])
    return lines[0] if len(lines) == 1 else " | ".join([lines[0], *lines[-2 if is_note else -1 :]])


def _sites(error: BaseException | None) -> Iterator[Site]:
    seen: set[int] = set()
    # What is raised again can be its own context.
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if (site := _site(frame.filename, frame.lineno or 0)) is not None:
                yield site
        for name, line in re.findall(r'File "([^"]+)", line (\d+)', str(error)):
            if (site := _site(name, int(line))) is not None:
                yield site
        error = error.__cause__ or error.__context__


def _site(name: str, line: int) -> Site | None:
    try:
        path = str(Path(name).resolve().relative_to(ROOT))
    except ValueError:
        return None
    return (path, line) if path.startswith(_PACKAGES) else None


def raises() -> Iterator[tuple[str, str, range]]:
    """Every place where an error is raised: file, function, and lines of the statement."""
    for package in _PACKAGES:
        place = ROOT / package
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            for node in ast.walk(tree):
                if isinstance(node, ast.Raise) and node.exc is not None:
                    around = [each for each in named if each.lineno <= node.lineno <= (each.end_lineno or 0)]
                    function = ".".join(each.name for each in sorted(around, key=lambda each: each.lineno))
                    yield str(path.relative_to(ROOT)), function, range(node.lineno, (node.end_lineno or 0) + 1)


_FRAME = " ~^│╭╮╰╯─"
"""What is around the words of a line: the marks below a line of a program, and the frame of a command's message."""
_SAID = "# -> "
_CASE = re.compile(rf"^```python\n(.*?)\n(?:{_SAID}[^\n]*\n)?```$", re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def sections(text: str) -> tuple[str, dict[str, list[str]]]:
    """What stands before the first section, and the programs of each."""
    before, *rest = _SECTION.split(text)
    return before, {title: _CASE.findall(body) for title, body in zip(rest[::2], rest[1::2], strict=True)}


def written(before: str, cases: Mapping[str, list[Case]]) -> str:
    """The file."""
    parts = [before.strip()]
    for title, those in cases.items():
        parts.append(f"## {title}")
        parts += [f"```python\n{case.code}\n{_SAID}{case.said}\n```" for case in those]
    return "\n\n".join(parts) + "\n"


def results(run: Callable[[str], Case] = tried) -> tuple[str, dict[str, list[Case]]]:
    """Every program of the file, run."""
    before, programs = sections(GOLDEN.read_text(encoding="utf-8"))
    return before, {title: [run(code) for code in codes] for title, codes in programs.items()}


def left_out() -> dict[str, str]:
    """File, or file and function, that raises what is not in the golden file -> why not."""
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", LEFT_OUT.read_text(encoding="utf-8"), re.MULTILINE)
    return {place: reason.strip() for place, reason in rows}


def unseen(cases: Mapping[str, list[Case]]) -> list[str]:
    """Places that raise, have no case, and no reason for that."""
    seen = {site for those in cases.values() for case in those for site in case.sites}
    known = left_out()
    found = []
    for path, function, lines in raises():
        if any((path, line) in seen for line in lines):
            continue
        names = [path, f"{path}::{function}", *(f"{parent}/" for parent in Path(path).parents)]
        if not any(name in known for name in names):
            found.append(f"{path}::{function} line {lines.start}")
    return found


if __name__ == "__main__":
    start, found = results()
    GOLDEN.write_text(written(start, found), encoding="utf-8")
    print(*unseen(found), sep="\n")
