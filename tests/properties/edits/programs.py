"""Random programs as text, random edits of them, and what each step must come to, whatever was edited between two runs.

A program has branches: numbers are multiplied, then combined by key. The editor's model knows which branch each line
belongs to, and keeps the history of each stored state: the functions that the records went through, and from where on.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from headrace.lowlevel import BaseInjector, Batch, CallSink, Delivery, MemorySplit

RECORDS, LIMIT, KEYS = 150, 10, 3
FOLDER = "HEADRACE_EDITED_PROGRAM"
"""Environment variable: where programs write what they put out."""
LAST_EPOCH = "HEADRACE_EDITED_PROGRAM_STOPS"
"""Environment variable: the epoch after whose delivery a program's process ends."""


@dataclass(frozen=True)
class Numbers(BaseInjector):
    """Pairs of a key and a number from 1 on, in epochs of one size."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next numbers."""
        begin = cast(int, position)
        end = min(begin + min(limit, LIMIT), RECORDS)
        pairs = [(f"k{number % KEYS}", number + 1) for number in range(begin, end)]
        return Delivery([MemorySplit(Batch(pairs, [0] * len(pairs)))], end, done=end == RECORDS)


def rows_to(branch: int) -> CallSink:
    """A sink that writes the rows of a branch to a file for each epoch."""
    folder = Path(os.environ[FOLDER]) / str(branch)

    def deliver(epoch: int, rows: Sequence[tuple[Any, Any]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{epoch}.json").write_text(json.dumps([list(row) for row, _ in rows]))

    return CallSink(deliver)


def shown(key: Any) -> str:
    """A key as text, which tells keys of the program's class from others."""
    return key if isinstance(key, str) else f"Key {key.name}"


def stops(epoch: int, rows: object) -> None:
    """Ends the process after the epoch in `LAST_EPOCH`, as a kill would."""
    if epoch >= int(os.environ.get(LAST_EPOCH) or 1_000_000):
        os._exit(9)


# Branches

_OPERATIONS: dict[str, Callable[[Iterable[int]], int]] = {"sum": sum, "max": max, "min": min}
_KEY = """
@dataclasses.dataclass(frozen=True)
class Key:
    name: str
"""
_ADDED_FIELD = '    kind: str = "usual"\n'
HEAD = """\
import dataclasses
import functools

import headrace as beam
from headrace.transforms.userstate import CombiningValueStateSpec
from tests.properties.edits.programs import Numbers, rows_to, shown, stops
KEY

def at_least(low):
    return lambda values: max(low, max(values))


def bounded(values, low):
    return max(low, max(values))

"""
_MAIN = """

if __name__ == "__main__":
    import sys

    from headrace.options.pipeline_options import PipelineOptions

    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as program:
        pipeline(program)
"""
_KINDS = ["lambda", "lambda", "lambda", "named", "closure", "closure", "partial", "state", "globally"]


@dataclass(frozen=True)
class Branch:
    """One branch; `number` is its identity, which no edit changes."""

    number: int
    kind: str
    operation: str
    factor: int
    low: int
    letter: str = "v"
    """The parameter of its lambda."""
    label: str | None = None
    has_class: bool = False
    """Whether its keys are instances of the program's class."""
    is_float: bool = False

    def combine(self, values: Sequence[int]) -> int:
        """What its function makes of values or results."""
        if self.kind in ("closure", "partial"):
            return max(self.low, max(values))
        return sum(values) if self.kind == "state" else _OPERATIONS[self.operation](values)

    @property
    def shape(self) -> str:
        """Kind and function: state of one is of no use to others."""
        return self.kind if self.kind in ("state", "globally") else "combined"

    @property
    def default(self) -> str:
        """What the program's text says of the function, by which a step without a label is known."""
        if self.kind in ("lambda", "globally"):
            return f"{self.kind}: lambda {self.letter}: {self.operation}({self.letter})"
        return {"closure": "closure", "partial": f"partial {self.low}"}.get(self.kind, f"{self.kind} {self.number}")

    @property
    def mark(self) -> str:
        """What each name of its step contains."""
        if self.label is not None:
            return self.label
        mark = {"closure": "lambda values", "partial": f"low={self.low}", "named": f"combined_{self.number}"}
        return mark.get(self.kind, f"Keep{self.number}" if self.kind == "state" else self.default.partition(": ")[2])

    def definitions(self) -> str:
        """Functions and classes that its step names."""
        if self.kind == "named":
            return f"\ndef combined_{self.number}(values):\n    return {self.operation}(values)\n"
        if self.kind == "state":
            return (
                f"\nclass Keep{self.number}(beam.DoFn):\n"
                '    def process(self, pair, total=beam.DoFn.StateParam(CombiningValueStateSpec("total", sum))):\n'
                "        total.add(pair[1])\n        yield pair[0], total.read()\n"
            )
        return ""

    def lines(self) -> list[str]:
        """Its steps."""
        function = {
            "lambda": f"lambda {self.letter}: {self.operation}({self.letter})",
            "globally": f"lambda {self.letter}: {self.operation}({self.letter})",
            "named": f"combined_{self.number}",
            "closure": f"at_least({self.low})",
            "partial": f"functools.partial(bounded, low={self.low})",
            "state": f"Keep{self.number}()",
        }[self.kind]
        step = {"state": f"beam.ParDo({function})"}.get(self.kind, f"beam.CombinePerKey({function})")
        key, value = "Key(pair[0])" if self.has_class else "pair[0]", f"{self.factor}{'.0' * self.is_float} * pair[1]"
        times = f"beam.Map(lambda pair: ({key}, {value}))"
        if self.kind == "globally":
            times = f"beam.Map(lambda pair: {value})"
            step = f"beam.CombineGlobally({function}).without_defaults()"
        named = "" if self.label is None else f"{self.label!r} >> "
        last = [] if self.kind != "globally" else ['        | beam.Map(lambda value: ("all", value))']
        return [
            "    _ = (",
            "        numbers",
            f"        | {times}",
            f"        | {named}{step}",
            *last,
            "        | beam.MapTuple(lambda key, value: (shown(key), value))",
            f'        | "out {self.number}" >> beam.io.Write(rows_to({self.number}))',
            "    )",
        ]


@dataclass
class Program:
    """Branches in the order of the text, and lines of no meaning between them."""

    branches: list[Branch] = field(default_factory=list)
    comments: list[int] = field(default_factory=list)
    """Comment lines above each branch."""
    elsewhere: bool = False
    """Whether the steps are in a function of another module."""
    has_module: bool = False
    """Whether the class of keys has a module of its own."""
    has_field: bool = False
    """Whether the class of keys has a second field."""

    def files(self) -> dict[str, str]:
        """Name of a file -> its text; `program.py` is the one to run."""
        body = ["def pipeline(p):", '    numbers = p | "Numbers" >> beam.io.Read(Numbers())']
        body.append('    _ = numbers | "stop" >> beam.io.ForeachEpoch(stops)')
        for branch, comments in zip(self.branches, self.comments, strict=True):
            body += [f"    # {'x' * line}" for line in range(comments)] + branch.lines()
        key = _KEY + (_ADDED_FIELD if self.has_field else "")
        files = {"keys_of_program.py": f"import dataclasses\n\n{key}"} if self.has_module else {}
        head = HEAD.replace("KEY", "from keys_of_program import Key\n" if self.has_module else f"\n{key}")
        text = head + "".join(branch.definitions() for branch in self.branches) + "\n\n" + "\n".join(body) + "\n"
        if not self.elsewhere:
            return {**files, "program.py": text + _MAIN}
        return {
            **files,
            "steps_of_program.py": text,
            "program.py": f"import headrace as beam\nfrom steps_of_program import pipeline\n{_MAIN}",
        }

    def shared(self) -> set[str]:
        """The default labels that several steps have."""
        counts = Counter(branch.default for branch in self.branches if branch.label is None)
        return {default for default, count in counts.items() if count > 1}


class Editor:
    """Writes a program, and edits it."""

    def __init__(self, rng: random.Random, edits_fields: bool = False) -> None:
        self.rng = rng
        self._edits_fields = edits_fields
        self._made = 0
        self.program = Program()
        for _ in range(rng.randint(2, 4)):
            self._add()

    def _branch(self) -> Branch:
        self._made += 1
        rng, number = self.rng, self._made
        label = f"Step {number}" if rng.random() < 0.25 else None
        return Branch(
            number,
            rng.choice(_KINDS),
            rng.choice(["sum", "sum", "max", "min"]),
            rng.choice([1, 1, 7, 31]) if rng.random() < 0.5 else 2 * number + 101,
            100 * rng.randint(1, 3) + 5000 * rng.randint(0, 1),
            label=label,
            has_class=rng.random() < 0.5,
        )

    def snapshot(self) -> Program:
        """The program as it is now."""
        return replace(self.program, branches=[*self.program.branches], comments=[*self.program.comments])

    def edit(self) -> None:
        """One to three random edits."""
        for _ in range(self.rng.randint(1, 3)):
            self.rng.choice([self._comment, self._add, self._add, self._remove, self._move, self._change, self._name])()
        if self.rng.random() < 0.2:
            self.program.elsewhere = not self.program.elsewhere
        if self.rng.random() < 0.3:
            self.program.has_module = not self.program.has_module
        if self._edits_fields and self.rng.random() < 0.1:
            self.program.has_field = not self.program.has_field

    def _comment(self) -> None:
        place = self.rng.randrange(len(self.program.comments))
        self.program.comments[place] = self.rng.randint(0, 3)

    def _add(self) -> None:
        place = self.rng.randint(0, len(self.program.branches))
        self.program.branches.insert(place, self._branch())
        self.program.comments.insert(place, self.rng.choice([0, 0, 1]))

    def _remove(self) -> None:
        if len(self.program.branches) > 1:
            place = self.rng.randrange(len(self.program.branches))
            del self.program.branches[place], self.program.comments[place]

    def _move(self) -> None:
        branch = self.program.branches.pop(self.rng.randrange(len(self.program.branches)))
        self.program.branches.insert(self.rng.randint(0, len(self.program.branches)), branch)

    def _change(self) -> None:
        """Another function, or the same one with another parameter."""
        place = self.rng.randrange(len(self.program.branches))
        branch = self.program.branches[place]
        change: dict[str, Any] = {"letter": self.rng.choice("vwx")}
        if self.rng.random() < 0.5:
            change = {"operation": self.rng.choice(list(_OPERATIONS)), "low": branch.low + 10}
        if self.rng.random() < 0.3:
            change = {"has_class": not branch.has_class} if self.rng.random() < 0.5 else {"is_float": True}
        self.program.branches[place] = replace(branch, **change)

    def _name(self) -> None:
        place = self.rng.randrange(len(self.program.branches))
        branch = self.program.branches[place]
        self.program.branches[place] = replace(branch, label=None if branch.label else f"Step {branch.number}")


# What programs must come to


@dataclass(frozen=True)
class State:
    """What is stored for a step: the functions and factors by which records came into it."""

    shape: str
    is_shared: bool
    parts: tuple[tuple[Branch, int, int], ...]
    """(branch as it was, first record, end)."""

    def result(self, of: Branch) -> dict[str, int]:
        """The results by key."""
        totals: dict[str, int] = {}
        for branch, begin, end in self.parts:
            for number in range(begin, end):
                key = "all" if of.kind == "globally" else f"{'Key ' * branch.has_class}k{number % KEYS}"
                value = branch.factor * (number + 1)
                before = [totals[key]] if key in totals else []
                totals[key] = branch.combine([*before, value])
        return {key: of.combine([total]) for key, total in totals.items()}


class Model:
    """What a checkpoint may have stored under each name, as the rules of changed pipelines say."""

    def __init__(self) -> None:
        self._stored: dict[object, list[State]] = {}
        self._archived: dict[object, list[State]] = {}
        self._at = 0

    def allowed(self, program: Program, end: int, consented: Sequence[str] = ()) -> dict[int, list[State]]:
        """Branch -> the states that it may have when the records up to `end` are in: kept, or begun anew.

        Args:
            program: The edition that takes the records.
            end: The number of records.
            consented: The options with which the user has given stored data up.
        """
        known = {**self._archived, **self._stored}
        found = {}
        for branch in program.branches:
            part = (branch, self._at, end)
            anew = State(branch.shape, self._is_shared(program, branch), (part,))
            found[branch.number] = [
                replace(kept, parts=(*kept.parts, part))
                for kept in known.get(self._name(program, branch), ())
                if (kept.shape, kept.is_shared) == (anew.shape, anew.is_shared)
            ]
            if not found[branch.number] or any(branch.mark in option for option in consented):
                found[branch.number].append(anew)
        return found

    def ran(self, program: Program, end: int, consented: Sequence[str] = ()) -> None:
        """The program ran up to a record."""
        states = self.allowed(program, end, consented)
        self._archived |= self._stored
        self._stored = {self._name(program, branch): states[branch.number] for branch in program.branches}
        self._at = end

    def _is_shared(self, program: Program, branch: Branch) -> bool:
        return branch.label is None and branch.default in program.shared()

    def _name(self, program: Program, branch: Branch) -> object:
        if branch.label is not None:
            return branch.label
        # Several steps have the label, so that each may go on with its own state only.
        return (branch.default, branch.number) if self._is_shared(program, branch) else branch.default


_OPTION = re.compile(r"('?)--(allow_removed|discard_stored)=")


def options_in(message: str) -> list[str]:
    """The options that a refusal names."""
    found = []
    for match in _OPTION.finditer(message):
        # As the message says it to a shell; a name without quotes ends at a space or at the end of the sentence.
        lexer = shlex.shlex(message[match.start() :], posix=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        option = next(iter(lexer))
        found.append(option.rstrip("."))
    return found


def results(folder: Path, branch: Branch) -> dict[str, int]:
    """The newest result of each key of a branch."""
    rows: dict[str, int] = {}
    for path in sorted((folder / str(branch.number)).glob("*.json"), key=lambda path: int(path.stem)):
        for key, value in json.loads(path.read_text()):
            rows[key] = max(value, rows.get(key, value)) if branch.kind == "state" else value
    return rows
