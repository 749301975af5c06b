"""docs/errors.md has every class of errors, docs/limits.md the numbers of the code, docs/compatibility.md its versions.

Messages on docs/troubleshooting.md are those of the code.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from html import unescape

import pytest

from headrace.lowlevel import metric_cells
from headrace.lowlevel.checkpoint.log import marker
from headrace.lowlevel.processing import key_context, worker
from headrace.lowlevel.records import block
from headrace.lowlevel.storage import object_store, signed_store
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.vectorized import computation
from headrace.runners.engine import options, productions
from headrace.runners.engine.driver import running_topology, signals
from headrace.sdk.combinefns import quantile_sketch
from headrace.sdk.io.files import write_to_files
from headrace.sdk.io.text import line_ranges
from headrace.sdk.operators.splittable import process_invoker
from headrace.sdk.recording import recorded_step
from headrace.sdk.userstate import state_spec
from tests.pages import DOCS, ROOT
from tests.publicapi import public_names

NO_USER_MEETS = {
    "AbsentValueError",
    "HookError",
    "JavaStartError",
    "LeftError",
    "MisuseError",
    "TableMovedError",
    "TooMuchError",
    "UnlikeError",
    "UnstableKeyError",
}
"""Classes that the engine and the command line catch themselves."""


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@cache
def classes() -> dict[str, list[str]]:
    """Exception class of the product -> names of its bases."""
    return {
        node.name: [ast.unparse(base) for base in node.bases]
        for package in ("sdk", "lowlevel", "runners", "headrace/cli", "headrace/options")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and re.search(r"(Error|Exception)$", node.name) and node.name[0] != "_"
    }


def _year(micros: int) -> str:
    """The year of a timestamp that is beyond those of `datetime`, by the mean length of a year."""
    year = int(1970 + micros / 1e6 / 31_556_952)
    return f"{year:,}".replace("-", "−")


def test_every_class_of_errors_is_on_the_page_once() -> None:
    listed = re.findall(r"^\| `(\w+)`", text("errors.md"), re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == classes().keys() - NO_USER_MEETS - {"HeadraceError"}


def test_every_class_of_errors_can_be_imported_from_the_public_module_that_is_named() -> None:
    listed = {
        name: module
        for module, names in re.findall(r"^- `(headrace[\w.]+)`: (.*)$", text("errors.md"), re.M)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert listed.keys() == (classes().keys() - NO_USER_MEETS)
    assert {f"{module}.{name}" for name, module in listed.items()} <= dict(public_names()).keys()


def ancestors(name: str) -> set[str]:
    """All classes that an exception class of the product is a subclass of, as the source names them."""
    bases = set(classes().get(name, []))
    return bases.union(*map(ancestors, bases))


@pytest.mark.parametrize(
    "line", re.findall(r"^\| `\w+`.*$", text("errors.md"), re.M), ids=lambda line: line.split("`")[1]
)
def test_bases_are_those_of_the_class(line: str) -> None:
    head = line.split("|")[1]
    name, *shown = re.findall(r"`(\w+)`", head.replace("no `HeadraceError`", ""))
    found = ancestors(name)
    assert found.issuperset(shown)
    assert ("HeadraceError" in found) == ("no `HeadraceError`" not in head)


REFUSED = {
    "a record with its key, as a pickle": f"{block.LARGEST_RECORD >> 30} GiB",
    "a line of a text file": f"{line_ranges.LONGEST_LINE >> 20} MiB",
    "name of a state or timer of a `DoFn`": f"1 to {state_spec._LONGEST_NAME} bytes",
    "name of a cell of a raw computation": f"1 to {key_context.LONGEST_NAME} bytes",
    "timers of a key that fire one after the other in one bundle": f"{worker.ENDLESS:,}",
    "the same for rounds of a column computation": f"{computation.ENDLESS:,}",
    "secret of a signed checkpoint": f"at least {signed_store._SHORTEST} bytes",
    "shards of a file sink": f"{write_to_files._MOST:,}",
    "timestamps": f"years {_year(MIN_TIMESTAMP)} to {_year(MAX_TIMESTAMP)}, whole microseconds",
    "set of texts of a metric": f"{metric_cells.MOST_CHARACTERS:,} characters in all",
}
CHANGES = {
    "records in an epoch": f"{options.USUAL:,}, or `--max_records_per_epoch`",
    "records in an epoch with `--latency_aim`": f"never fewer than {options.LEAST:,}",
    "key intervals and tasks of a step": f"{running_topology.MANY_TASKS}",
    "claims or outputs of one element of a splittable `DoFn`": (
        f"{process_invoker.MOST_CLAIMS:,}, or a bundle of {process_invoker.BUNDLE_SECONDS:g} second"
    ),
    "unacknowledged rows of weak productions": f"{productions._MOST_BYTES >> 20} MiB",
    "values for `ApproximateQuantiles`": f"{quantile_sketch.EXACT:,}",
    "results recorded for a picture, of a step": f"{recorded_step.LIMIT:,} of each kind",
    "an object store that fails": f"{object_store.PATIENCE_SECONDS:g} seconds",
    "a signal": f"{signals.GRACE_SECONDS:g} seconds for the epoch, then {signals.LAST_SECONDS:g} for user code",
}


def rows(page: str, section: str) -> dict[str, str]:
    """The first two columns of the table below a heading, without its head."""
    part = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text(page), re.M | re.S)
    assert part is not None, f"no section {section}"
    lines = [line.strip("|").split("|") for line in part[1].splitlines() if line.startswith("|")][2:]
    return {line[0].strip(): line[1].strip() for line in lines}


def test_limits_are_those_of_the_code() -> None:
    assert rows("limits.md", "What is refused") == REFUSED
    assert rows("limits.md", "What changes") == CHANGES


def test_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [found[1] for each in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", each))]
    page = text("compatibility.md")
    assert f"| Python | {', '.join(versions)};" in page
    # A later one would be refused by the compiler of a dependency, after minutes, instead of by pip in one sentence.
    assert project["requires-python"] == f">={versions[0]},<3.{int(versions[-1].removeprefix('3.')) + 1}"
    [beam] = project["optional-dependencies"]["beam"]
    found = re.fullmatch(r"apache-beam>=2\.(\d+),<2\.(\d+)", beam)
    assert found is not None
    assert f"| 2.{found[1]} to 2.{int(found[2]) - 1};" in page
    assert f"| checkpoint format | {marker.FORMAT_VERSION} |" in page


def said() -> str:
    """Every text of the product, without what is put into it, and every message of `tests/golden/wrong_input.md`."""
    found = [(ROOT / "tests" / "golden" / "wrong_input.md").read_text(encoding="utf-8")]
    for package in ("sdk", "lowlevel", "runners", "headrace/absent_names", "headrace/options"):
        for path in (ROOT / package).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            found += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join(found)


PYTHONS = {"No module named 'headrace'"}


def test_messages_on_the_page_are_those_of_the_code() -> None:
    texts = said()
    messages = set(re.findall(r'^\| "([^"]+)" \|', unescape(text("troubleshooting.md")), re.M)) - PYTHONS
    assert len(messages) > 30
    pieces = {piece.strip(" ;:,.") for message in messages for piece in re.split(r"…|<…>", message)}
    assert not [piece for piece in pieces if piece not in texts]
