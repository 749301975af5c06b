"""The table of what ends a run, in the guide on operating, has what is really said, and the codes that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.lowlevel.checkpoint import Checkpoint, Fingerprint
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.runners.engine.driver import signals
from headrace.runners.engine.driver.topology_change import Changes

PAGE = Path("docs/guide/operating.md")
PROGRAM = """
from headrace.lowlevel import BoundedInjector, Computation, Topology

class Count(Computation):
    def process_record(self, record, context):
        context.state = (context.state or 0) + 1

class Other(Count):
    pass

class Fails(Count):
    def process_record(self, record, context):
        raise ValueError("as told")

class Holds(Count):
    def process_record(self, record, context):
        context.hold(record.timestamp)
        context.produce("held", record.value)

class Stops(Count):
    def process_record(self, record, context):
        raise KeyboardInterrupt

def made(computation):
    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1)]))
    topology.computation("count", computation, {"in": lambda value: value})
    return topology

count, other, fails, stops = made(Count()), made(Other()), made(Fails()), made(Stops())
holds = Topology()
holds.injector("in", BoundedInjector([(1, 1)]))
holds.computation("holds", Holds(), {"in": lambda value: value}, ["held"])
holds.computation("count", Count(), {"held": lambda value: value})
"""


def rows() -> dict[str, tuple[str, str]]:
    """What ends a run -> what is said, and the code, as the table has it."""
    section = PAGE.read_text().split("## What ends a run")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {what: (text, code) for what, text, code, _ in lines[2:]}


def pattern(text: str) -> str:
    """As a regular expression: the words in backquotes, in which N, M and X stand for something, and … for anything."""
    [words] = re.findall("`(.*?)`", text)
    whole = re.escape(words).replace("…", ".*")
    return re.sub(r"\b[NMX]\b", r"[\\w,]+", whole)


def run(*arguments: str) -> tuple[str, int]:
    result = CliRunner().invoke(app, ["run", *arguments, "--runner=LocalRunner", "--no-progress"])
    return result.output.strip(), result.exit_code


ENDINGS = {
    "the input has ended": ("program.py:count", "--checkpoint=state"),
    "a step raised an exception": ("program.py:fails",),
    "a hold that nothing can release": ("program.py:holds",),
    "the program has changed and cannot use its state": ("program.py:other", "--checkpoint=before"),
    "no such pipeline, option or place": ("program.py:cuont",),
    "Ctrl-C": ("program.py:stops", "--checkpoint=stopped"),
}


@pytest.mark.parametrize("what", ENDINGS)
def test_what_a_command_says(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, code = rows()[what]
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    run("program.py:count", "--checkpoint=before")
    said, ended = run(*ENDINGS[what])
    if what != "Ctrl-C":
        assert re.match(pattern(text), said, re.DOTALL), said
    else:
        # Nothing is committed when the first record stops the run.
        assert said.startswith("interrupted: ")
    assert str(ended) == code


def test_what_a_driver_says_that_was_replaced() -> None:
    text, _ = rows()["another driver has taken over the checkpoint"]
    store = ObjectStore("memory://")
    first = Checkpoint.open(store, "a", Fingerprint(()), 0)
    Checkpoint.open(store, "b", Fingerprint(()), 0)
    with pytest.raises(Exception, match=pattern(text.replace("error: ", ""))):
        first.ensure_driving()


@pytest.mark.parametrize(
    ("what", "number", "when"),
    [
        ("SIGTERM (Kubernetes, systemd, `kill`)", signals.signal.SIGTERM, ""),
        ("SIGHUP (the terminal was closed)", signals.signal.SIGHUP, ""),
        ("user code that does not return 5 seconds later", signals.signal.SIGTERM, signals._AT_ONCE),
        (
            "two such signals, a second or more apart, or an epoch that takes more than 20 seconds to end",
            signals.signal.SIGTERM,
            signals._EARLY,
        ),
    ],
)
def test_what_a_signal_says(what, number, when) -> None:
    text, code = rows()[what]
    changes = Changes(None, committed=7)
    assert re.match(pattern(text), signals._line(number, when, changes, durable=True))
    assert str(128 + number) in code.split(", ")
    assert (signals.GRACE_SECONDS, signals.LAST_SECONDS, signals.REPEAT_SECONDS) == (20.0, 5.0, 1.0)
