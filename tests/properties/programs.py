"""Random programs: chains of plain functions as a user would write them, and what they give without an engine."""

from __future__ import annotations

import datetime
import linecache
import random
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as beam
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.utils.timestamp import Timestamp
from tests.collecting import collected

NOTED: list[object] = []
"""What functions of programs have noted: their side effects."""


def note(value: object) -> object:
    """Have a side effect; the value."""
    NOTED.append(told(value))
    return value


def told(value: object) -> object:
    """A value with the exact types of all its parts; not a number equals itself, and 0.0 is not -0.0."""
    if isinstance(value, (tuple, list)):
        return type(value).__name__, *map(told, value)
    if isinstance(value, dict):
        return type(value).__name__, *((told(key), told(each)) for key, each in value.items())
    return type(value).__name__, repr(value)


# Elements

COLUMNS = {
    "number": "int",
    "small": "int",
    "share": "float",
    "half": "float",
    "word": "str",
    "name": "str",
    "flag": "bool",
    "day": "any",
    "raw": "any",
    "items": "any",
}
_ARROW = {
    "number": [pa.int64(), pa.int64(), pa.int32(), pa.uint64()],
    "small": [pa.int8(), pa.int16(), pa.uint8(), pa.int64()],
    "share": [pa.float64()],
    "half": [pa.float32()],
    "word": [pa.string(), pa.large_string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "name": [pa.large_string(), pa.large_string(), pa.string(), pa.dictionary(pa.int8(), pa.large_string())],
    "flag": [pa.bool_()],
    "day": [pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "UTC")],
    "raw": [pa.binary(), pa.large_binary()],
    "items": [pa.null()],
}
_VALUES: dict[str, Sequence[object]] = {
    "number": [0, 1, 2, 3, 7, 40, 1_000_003],
    "small": [0, 1, 2, 5, 100],
    "share": [0.0, -0.0, 0.5, 1.25, -3.0, 1e18],
    "half": [0.0, 0.5, 2.0, -8.0],
    "word": ["", "a", "ab", "B", " x ", "Row", "aab"],
    "name": ["one", "Two", "three", "a", "\tq"],
    "flag": [True, False],
    "raw": [b"", b"a", b"\xff"],
    "items": [None],
}
_RARE: dict[str, Sequence[object]] = {
    "number": [2**53 + 1, 2**62],
    "share": [float("nan"), float("inf"), 1e308],
    "word": ["ß", "é", "\U0001f600"],
}


def table_for(rng: random.Random, rows: int) -> pa.RecordBatch:
    """A table of random types and values; most columns have no nulls."""
    columns = {}
    for name, kinds in _ARROW.items():
        kind = rng.choice(kinds)
        values = list(_VALUES.get(name, ()))
        if rng.random() < 0.15 and kind != pa.int32():
            values += _RARE.get(name, ())
        if name == "day":
            values = [datetime.date(2020, 2, 29), datetime.date(1969, 12, 31)]
        nulls = 0.2 if rng.random() < 0.1 else 0.0
        drawn = [None if rng.random() < nulls else rng.choice(values) for _ in range(rows)]
        if pa.types.is_dictionary(kind):
            columns[name] = pa.array(drawn, kind.value_type).dictionary_encode().cast(kind)
        else:
            columns[name] = pa.array(drawn, pa.date32()).cast(kind) if name == "day" else pa.array(drawn, kind)
    return pa.RecordBatch.from_pydict(columns)


def cut(rng: random.Random, table: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The table in parts, as ends of epochs cut it."""
    edges = sorted({0, table.num_rows, *(rng.randrange(table.num_rows + 1) for _ in range(rng.randrange(4)))})
    return [table.slice(first, last - first) for first, last in pairwise(edges)]


# Programs

Atoms = list[tuple[str, str]]
"""Expressions that are at hand, and their types."""
_WHOLE = ["0", "1", "2", "3", "-1", "7", "1000000", "2147483648", "9007199254740993", "4611686018427387904"]
_FLOATS = ["0.0", "-0.0", "0.5", "2.0", "1e308", "-1.5"]
_TEXTS = ['""', '"a"', '"Ab"', '" x "', '"é"', "'q'"]
_BY_COLUMN = {
    "int": """<int> + <int>; <int> - <int>; <int> * <int>; <int> // <int>; <int> % <int>; -<int>; abs(<int>);
        len(<str>); int(<float>); int(<bool>); int(<int>)""",
    "float": """<int> / <int>; <float> + <float>; <float> * <int>; <int> - <float>; -<float>; abs(<float>);
        float(<int>); <float> / <float>""",
    "str": """<str> + <str>; <str>.upper(); <str>.lower(); <str>.strip(); <str>.replace("a", "bb"); str(<int>);
        <str>.replace("o", "")""",
    "bool": """<int> < <int>; <int> == <float>; <float> >= <float>; <str> == <str>; <str> < <str>; not <bool>;
        <int> is None; <str> is not None; <str>.startswith("a"); <str>.endswith(""); <int> != <int>;
        <bool> and <bool>; <bool> or <bool>; <any> is None; <bool> == <bool>""",
}
"""What is computed by column, where values allow it."""
_BY_PYTHON = {
    "int": """max(<int>, <int>); <int> if <bool> else <int>; OFFSET; TABLE[<int> % 3]; <str>.count('a');
        sum([<int>, <int>]); <int> & 3; id(<any>) * 0; helped(<int>); hash(<int>)""",
    "float": """round(<float>, 1); <float> if <bool> else <int>; math.floor(<float>) * 1.0; <float> // <float>""",
    "str": """f'{<str>}-{<int>!r:>4}'; f'\u00a0{<any>}'; <str>[:2]; <str>[<int>]; <str>.title(); '%s' % (<any>,);
        ','.join([<str>, <str>]); repr(<any>); type(<any>).__name__; caller()""",
    "bool": """<int> in (1, 2, 3); isinstance(<any>, int); 0 < <int> < 5; any([<bool>]); <any> == <any>;
        id(<any>) == id(<any>); bool(<any>)""",
}
"""What only Python computes."""
_OPERAND = re.compile("<(int|float|str|bool|any)>")
_MADE = {
    ("int", "str"): "len({})",
    ("int", "float"): "int({})",
    ("int", "bool"): "int({})",
    ("float", "int"): "float({})",
    ("str", "int"): "str({})",
    **{("bool", kind): "({} is not None)" for kind in ("int", "float", "str", "any")},
}
"""What is made of a value of another type, where there is none of the one that is wanted."""
HEAD = """\
import math
import sys
from typing import cast

import headrace as beam
from tests.properties.programs import note

OFFSET = 3
TABLE = {0: 10, 1: 11, 2: 12}


def helped(number):
    return number + OFFSET


def caller():
    return sys._getframe(1).f_code.co_name

"""


@dataclass
class Program:
    """A chain of steps over elements with the fields `COLUMNS`."""

    seed: int
    source: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    """Kind of step (`Map`, `MapAt`, `MapTuple`, `Filter`, `FlatMap`), name of its function."""
    of_rows: bool = False
    """Whether elements are `Row`s, not dicts."""

    def functions(self, folder: Path) -> dict[str, Callable[..., Any]]:
        """Its functions, loaded from a file in a folder."""
        path = folder / f"program_{self.seed}.py"
        path.write_text(self.source, encoding="utf-8")
        linecache.checkcache(str(path))
        scope: dict[str, Any] = {"__name__": path.stem}
        with warnings.catch_warnings():
            # Of what nobody would write: `"a" is None`.
            warnings.simplefilter("ignore")
            exec(compile(self.source, str(path), "exec", dont_inherit=True), scope)
        return {name: scope[name] for _, name in self.steps}

    def transforms(self, functions: dict[str, Callable[..., Any]]) -> Iterator[Any]:
        """Its steps."""
        kinds = {"MapAt": beam.Map, "Map": beam.Map, "MapTuple": beam.MapTuple}
        for kind, name in self.steps:
            yield f"{kind} {name} of {self.seed}" >> (kinds.get(kind) or getattr(beam, kind))(functions[name])

    def __str__(self) -> str:
        return f"seed {self.seed}, steps {self.steps}\n{self.source[len(HEAD) :]}"


class _Author:
    """Writes a program."""

    def __init__(self, seed: int, with_effects: bool) -> None:
        self._rng = random.Random(seed)
        self._with_effects = with_effects
        self._lines: list[str] = []
        # Half of all programs have nothing but what columns compute.
        self._more = self._rng.choice([0.0, 0.0, 0.05, 0.3])

    def program(self, seed: int) -> Program:
        program = Program(seed, "", of_rows=self._rng.random() < 0.3)
        element = "e.{}" if program.of_rows else 'e["{}"]'
        shape: Any = ("fields", {element.format(name): kind for name, kind in COLUMNS.items()})
        for number in range(self._rng.choice([1, 1, 2, 2, 3, 4])):
            kind, shape = self._step(f"f{number}", shape)
            program.steps.append((kind, f"f{number}"))
        program.source = HEAD + "\n".join(self._lines) + "\n"
        return program

    def _step(self, name: str, shape: Any) -> tuple[str, Any]:
        kinds = ["Map", "Map", "Map", "Filter", "MapAt"]
        kinds += ["FlatMap"] if self._rng.random() < self._more else []
        kinds += ["MapTuple"] * 3 if shape[0] == "tuple" else []
        kind = self._rng.choice(kinds)
        parameters = "e"
        atoms: Atoms = [("e", "any")]
        if kind == "MapTuple":
            letters = "abcde"[: len(shape[1])]
            parameters = ", ".join(letters)
            atoms = list(zip(letters, shape[1], strict=True))
        elif shape[0] == "fields":
            atoms += shape[1].items()
        elif shape[0] == "tuple":
            atoms += [(f"e[{place}]", each) for place, each in enumerate(shape[1])]
        else:
            atoms = [("e", shape[1])]
        if kind == "MapAt":
            parameters += ", t=beam.DoFn.TimestampParam"
            atoms += [("t.micros", "int")]
        if kind == "Filter":
            body, after = self._expression(self._rng.choice(["bool", "bool", "bool", "int", "str"]), atoms, 2), shape
        elif kind == "FlatMap":
            one = self._rng.choice(["int", "str"])
            body, after = f"[{self._expression(one, atoms, 1)}, {self._expression(one, atoms, 1)}]", ("one", one)
        else:
            body, after = self._value(atoms)
        if self._with_effects and self._more and self._rng.random() < 0.3:
            body = f"note({body})"
        self._write(name, parameters, body, atoms)
        return kind, after

    def _value(self, atoms: Atoms) -> tuple[str, Any]:
        form = self._rng.choice(["one", "tuple", "tuple", "tuple", "dict", "nested"])
        kinds = [
            self._rng.choice(["int", "float", "str", "str", "bool", "any"]) for _ in range(self._rng.randint(1, 4))
        ]
        values = [self._expression(kind, atoms, 2) for kind in kinds]
        if form == "one":
            return values[0], ("one", kinds[0])
        if form == "dict":
            items = {f"k{place}": value for place, value in enumerate(values)}
            text = ", ".join(f'"{key}": {value}' for key, value in items.items())
            return f"{{{text}}}", ("fields", {f'e["k{place}"]': kind for place, kind in enumerate(kinds)})
        if form == "nested":
            values[0], kinds[0] = f"({values[0]}, {{'k': {values[-1]}}})", "any"
        return f"({', '.join(values)},)", ("tuple", kinds)

    def _expression(self, kind: str, atoms: Atoms, depth: int, constant: float = 0.15) -> str:
        rng = self._rng
        if rng.random() < 0.01:
            kind = rng.choice(["int", "float", "str", "bool"])
        fitting = [text for text, its in atoms if its == kind or kind == "any"]
        fitting = fitting or [_MADE[kind, its].format(text) for text, its in atoms if (kind, its) in _MADE]
        if kind == "any" or depth == 0 or rng.random() < 0.25:
            if fitting and (kind == "any" or rng.random() >= constant):
                found = rng.choice(fitting)
                return f"cast(int, {found})" if kind == "int" and rng.random() < 0.03 else found
            constants = {"int": _WHOLE, "float": _FLOATS, "str": _TEXTS, "bool": ["True", "False"]}
            return f"({rng.choice(constants.get(kind, ['None', '1']))})"
        pattern = rng.choice((_BY_PYTHON if rng.random() < self._more else _BY_COLUMN)[kind].split(";")).strip()
        first, *others = _OPERAND.split(pattern)
        for place, (operand, behind) in enumerate(zip(others[::2], others[1::2], strict=True)):
            # What is made of constants only is not computed by column.
            first += self._inner(operand, atoms, depth, pattern, 0.4 if place else 0.0) + behind
        return f"({first})"

    def _inner(self, kind: str, atoms: Atoms, depth: int, pattern: str, constant: float) -> str:
        # Before Python 3.12 what stands in an f-string has no quotes of its kind, and no back slashes.
        text = self._expression(kind, atoms, 0 if pattern.startswith("f'") else depth - 1, constant)
        if pattern.startswith("f'"):
            return "len(TABLE)" if "'" in text or "\\" in text or (kind == "any" and "{" in text) else text
        return text

    def _write(self, name: str, parameters: str, body: str, atoms: Atoms) -> None:
        other = self._expression("int", atoms, 1)
        forms = {
            "lambda": [f"{name} = lambda {parameters}: {body}"],
            "two of a line": [f"{name}, other_{name} = (lambda {parameters}: {body}), (lambda {parameters}: {other})"],
            "other first": [f"other_{name}, {name} = (lambda {parameters}: {other}), (lambda {parameters}: {body})"],
            "function": [f"def {name}({parameters}):", '    """What it does."""', f"    return {body}", ""],
            "statements": [f"def {name}({parameters}):", f"    found = {body}", "    return found", ""],
            "closure": [
                f"def make_{name}(OFFSET):",
                f"    return lambda {parameters}: {body}",
                "",
                f"{name} = make_{name}(5)",
            ],
        }
        plain = ["lambda", "two of a line", "other first", "function"]
        self._lines += forms[self._rng.choice(list(forms) if self._more else plain)]


def written(seed: int, with_effects: bool = True) -> Program:
    """The program of a seed."""
    return _Author(seed, with_effects).program(seed)


# What programs give


@dataclass
class Outcome:
    """What a program comes to, by whatever way."""

    rows: list[tuple[object, int]] = field(default_factory=list)
    """Told values and timestamps, in microseconds."""
    error: tuple[str, str, str] | None = None
    """Step, element, and the last lines of the traceback."""
    noted: list[object] = field(default_factory=list)


def by_hand(
    program: Program, functions: dict[str, Callable[..., Any]], values: Sequence[object], times: Sequence[int]
) -> Outcome:
    """What the functions give for element after element, without an engine."""
    NOTED.clear()
    outcome = Outcome()
    try:
        for value, time in zip(values, times, strict=True):
            _through(program.steps, functions, value, time, outcome)
    except _Failed as failed:
        outcome.rows, outcome.error = [], failed.told
    outcome.noted = list(NOTED)
    return outcome


class _Failed(Exception):
    def __init__(self, step: str, element: object, error: Exception) -> None:
        last = "".join(traceback.format_exception_only(error)).strip()
        self.told = step, f"{element!r:.200}", last


def _through(
    steps: Sequence[tuple[str, str]], functions: dict[str, Callable[..., Any]], value: Any, time: int, into: Outcome
) -> None:
    if not steps:
        into.rows.append((told(value), time))
        return
    (kind, name), *behind = steps
    function = functions[name]
    try:
        if kind == "MapTuple":
            result = function(*value)
        elif kind == "MapAt":
            result = function(value, t=Timestamp(micros=time))
        else:
            result = function(value)
        results = list(result) if kind == "FlatMap" else [result]
        if kind == "Filter":
            results = [value] if result else []
    except Exception as error:
        raise _Failed(name, value, error) from error
    for each in results:
        _through(behind, functions, each, time, into)


# Programs in a pipeline


@dataclass
class Branch:
    """A program in a pipeline with others, and what it must come to."""

    program: Program
    found: Callable[[], list[object]]
    expected: list[str]

    def check(self) -> None:
        """Whether it has come to that, in any order."""
        assert sorted(repr(told(value)) for value in self.found()) == self.expected, str(self.program)


def parquet_file(folder: Path, rows: int = 40) -> tuple[str, list[dict[str, object]]]:
    """A file with elements for programs, and these."""
    path = folder / "in.parquet"
    pq.write_table(pa.Table.from_batches([table_for(random.Random(5), rows)]), path, row_group_size=13)
    return str(path), pq.read_table(path).to_pylist()


def branches_of(
    rows: beam.PCollection[Any], seeds: Sequence[int], folder: Path, values: Sequence[dict[str, object]]
) -> list[Branch]:
    """The programs of these seeds that take dicts and do not fail, behind a collection of such."""
    branches = []
    for seed in seeds:
        program = written(seed, with_effects=False)
        functions = program.functions(folder)
        outcome = by_hand(program, functions, values, [MIN_TIMESTAMP] * len(values))
        if not program.of_rows and outcome.error is None:
            branch = rows
            for transform in program.transforms(functions):
                branch = branch | transform
            expected = sorted(repr(value) for value, _ in outcome.rows)
            branches.append(Branch(program, collected(branch), expected))
    return branches
