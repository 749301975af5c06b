"""What Beam puts out for the corpus, recorded: `python -m tests.parity.recorded` runs on Beam what has changed.

Beam's runners take longer for the corpus than all else in its tests. What a program gives there depends on its source,
on the package and on Python alone; so it is recorded with a digest of these. A program whose digest is another is run
on Beam by its test, and `./dev soak` runs all of them there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from tests.parity import canonical, corpus, worlds
from tests.parity.canonical import Element, Pane
from tests.parity.corpus import PROGRAMS, Program
from tests.parity.worlds import Beam, Results

FILE = Path(__file__).with_name("beam.jsonl")
"""A line for each program: its name, its digest, its elements by output."""


class RecordedBeam:
    """What Beam puts out for a program: as recorded, or from Beam itself where nothing is recorded of it."""

    def __getitem__(self, name: str) -> Results:
        program = PROGRAMS[name]
        digest, results = recorded().get(name, ("", {}))
        return results if digest == digest_of(program) else Beam().run([program])[name]


@cache
def recorded() -> Mapping[str, tuple[str, Results]]:
    """Program -> the digest of what was run, and what came out."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return {name: (digest, _decoded(outputs)) for name, digest, outputs in map(json.loads, lines)}


def digest_of(program: Program) -> str:
    """Of all that decides what a program gives on Beam."""
    files = _files(program.build.__module__)
    return hashlib.sha256(f"{_versions()} {files} {program.streaming} {program.flags}".encode()).hexdigest()[:16]


@cache
def _versions() -> str:
    return f"{version('apache-beam')} {sys.version_info[:2]}"


@cache
def _files(name: str) -> str:
    """The digest of a module of ours, of those that it uses, and of those that run programs and look at results."""
    found = {module.__name__: module for module in (canonical, corpus, worlds)}
    waiting = [sys.modules[name]]
    while waiting:
        module = waiting.pop()
        if module.__name__ not in found or module is sys.modules[name]:
            waiting += [used for used in _used(module) if used.__name__ not in found]
        found[module.__name__] = module
    files = [Path(str(module.__file__)) for _, module in sorted(found.items())]
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    # Where our own package has what decides nothing on Beam.
    return hashlib.sha256(b"\n".join(line for line in lines if b"headrace" not in line)).hexdigest()


def _used(module: ModuleType) -> Iterator[ModuleType]:
    """Modules of these tests from which one has a name."""
    for value in vars(module).values():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name.startswith("tests.") and name != module.__name__:
            yield sys.modules[name]


def _decoded(outputs: Mapping[str, list[list[object]]]) -> Results:
    return {name: [Element(*fields, Pane(*pane)) for *fields, pane in its] for name, its in outputs.items()}


def main() -> None:
    """Record what has changed, and forget what is gone."""
    from tests.parity import programs  # noqa: F401 - registers them

    logging.disable(logging.CRITICAL)
    theirs = RecordedBeam()
    lines = [json.dumps([name, digest_of(program), theirs[name]]) for name, program in sorted(PROGRAMS.items())]
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
