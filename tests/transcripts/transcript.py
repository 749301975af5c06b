"""Reads transcripts, and compares what came out with what they say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import yaml

from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from headrace.sdk import triggers, windows
from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, MaxFn, SumFn
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.windows import IntervalWindow, TimestampCombiner
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior, Windowing
from tests.harness import Pane
from tests.transcripts import own

FOLDER = Path(__file__).parent
# PyYAML's wheels have libyaml, which reads the cases in a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NAMES = {name: getattr(module, name) for module in (windows, triggers) for name in module.__all__}
NAMES.update((name, value) for name, value in vars(own).items() if getattr(value, "__module__", "") == own.__name__)
COMBINERS: Mapping[str, Callable[[], AnyCombineFn] | None] = cast(
    "Mapping[str, Callable[[], AnyCombineFn] | None]",
    {"group": None, "sum": SumFn, "count": CountCombineFn, "max": MaxFn},
)
STAMPS = {
    "end": TimestampCombiner.OUTPUT_AT_EOW,
    "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
    "latest": TimestampCombiner.OUTPUT_AT_LATEST,
    "transformed": TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED,
}
CLOSING = {"non-empty": ClosingBehavior.FIRE_IF_NON_EMPTY, "always": ClosingBehavior.FIRE_ALWAYS}
ON_TIME = {"non-empty": OnTimeBehavior.FIRE_IF_NON_EMPTY, "always": OnTimeBehavior.FIRE_ALWAYS}
FIELDS = {"name", "source", "window", "trigger", "mode", "lateness", "stamp", "closing", "on_time", "combine"}
FIELDS |= {"bundling", "steps"}
WORDS = {"key", "window", "value", "timing", "index", "nonspeculative", "first", "last", "timestamp", "retraction"}
_ELEMENT = re.compile(r"(?:(\w+)/)?(-?[\w.]+)@(-?[\d.]+)")


@dataclass(frozen=True, slots=True)
class Add:
    """Elements of one bundle, as (key, value, microseconds)."""

    elements: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Watermark:
    """The input watermark moves; microseconds."""

    to: int


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock moves; microseconds."""

    to: int


Action = Add | Watermark | Clock


@dataclass(frozen=True, slots=True)
class Step:
    """An action and what is true after it."""

    action: Action
    panes: tuple[dict[str, object], ...] = ()
    dropped: int | None = None
    held: int | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """One case."""

    name: str
    windowing: Windowing
    combine: Callable[[], AnyCombineFn] | None
    free: bool
    """Whether bundling makes no difference."""
    steps: tuple[Step, ...]

    @property
    def expected(self) -> list[dict[str, object]]:
        """The panes of all steps together, for runners that cannot say when a pane came."""
        return [pane for step in self.steps for pane in step.panes]

    @property
    def dropped(self) -> int:
        """How many elements are dropped in all."""
        return next((step.dropped for step in reversed(self.steps) if step.dropped is not None), 0)


class Subject(Protocol):
    """Something that a transcript can be played to: each call returns the panes that it put out."""

    def add(self, elements: Sequence[tuple[str, int, int]]) -> list[Pane]: ...
    def advance(self, watermark: int) -> list[Pane]: ...
    def clock(self, wall_time: int) -> list[Pane]: ...
    @property
    def dropped(self) -> int: ...
    @property
    def output_watermark(self) -> int: ...


@cache
def transcripts() -> tuple[Transcript, ...]:
    """All cases of this folder."""
    texts = (path.read_text() for path in sorted(FOLDER.glob("*.yaml")))
    return tuple(parse(document) for text in texts for document in yaml.load_all(text, _LOADER))


def parse(document: Mapping[str, object]) -> Transcript:
    """The case of a YAML document."""
    if unknown := set(document) - FIELDS:
        raise ValueError(
            f"transcript {document.get('name')!r} has the fields {sorted(unknown)}; known: {sorted(FIELDS)}"
        )
    combine = COMBINERS[str(document.get("combine", "group"))]
    windowing = Windowing.of(
        cast(windows.WindowFn, _expression(document["window"])),
        cast(triggers.Trigger, _expression(document.get("trigger", "DefaultTrigger()"))),
        AccumulationMode(document.get("mode", "discarding")),
        STAMPS[str(document.get("stamp", "end"))],
        float(str(document.get("lateness", 0))),
        CLOSING[str(document.get("closing", "non-empty"))],
        ON_TIME[str(document.get("on_time", "always"))],
    )
    steps = tuple(_steps(document["steps"]))
    assert steps[-1].action == Watermark(MAX_TIMESTAMP), f"{document['name']}: the last action is watermark: infinity"
    return Transcript(str(document["name"]), windowing, combine, document.get("bundling") == "free", steps)


def _expression(text: object) -> object:
    return eval(str(text), {"__builtins__": {}}, NAMES)


def _steps(lines: Iterable[Mapping[str, object]]) -> Iterator[Step]:
    step: Step | None = None
    for line in lines:
        (word, given), *rest = line.items()
        assert not rest, f"one thing a step: {line}"
        if word in ("add", "watermark", "clock"):
            if step:
                yield step
            step = Step(_action(word, given))
        else:
            assert step, f"{word} before any action"
            step = _said(step, word, given)
    if step:
        yield step


def _action(word: str, given: object) -> Action:
    if word == "add":
        found = _ELEMENT.findall(str(given))
        assert len(found) == len(str(given).split()), f"cannot read {given!r}"
        return Add(tuple((key or "k", int(value), _micros(time)) for key, value, time in found))
    return Watermark(_micros(given)) if word == "watermark" else Clock(_micros(given))


def _said(step: Step, word: str, given: object) -> Step:
    panes, dropped, held = step.panes, step.dropped, step.held
    if word == "panes":
        panes = tuple(given)
    elif word == "dropped":
        dropped = int(str(given))
    elif word == "held":
        held = _micros(given)
    else:
        raise ValueError(f"unknown step {word!r}")
    return Step(step.action, panes, dropped, held)


def _micros(seconds: object) -> int:
    return MAX_TIMESTAMP if seconds == "infinity" else round(float(str(seconds)) * SECOND)


def described(pane: Pane) -> dict[str, object]:
    """A pane in a transcript's words."""
    window = pane.window
    return {
        "key": pane.key,
        "window": [window.start_us / SECOND, window.end_us / SECOND]
        if isinstance(window, IntervalWindow)
        else "global"
        if window == windows.GlobalWindow()
        else repr(window),
        "value": sorted(pane.value) if isinstance(pane.value, list) else pane.value,
        "timing": pane.info.timing.name,
        "index": pane.info.index,
        "nonspeculative": pane.info.nonspeculative_index,
        "first": pane.info.is_first,
        "last": pane.info.is_last,
        "timestamp": pane.timestamp / SECOND,
        "retraction": pane.info.is_retraction,
    }


def compare(came: Iterable[Pane], expected: Sequence[Mapping[str, object]]) -> None:
    """Fail unless each pane is one of the expected ones, and none is missing."""
    left = [described(pane) for pane in came]
    for pane in expected:
        unknown = set(pane) - WORDS
        assert not unknown, f"unknown words {unknown}"
        pane = {"retraction": False, **pane}
        match = next((one for one in left if all(one[word] == pane[word] for word in pane)), None)
        assert match, f"no pane {dict(pane)} among {left}"
        left.remove(match)
    assert not left, f"unexpected panes {left}"


def play(transcript: Transcript, subject: Subject) -> None:
    """Play a transcript step by step."""
    for number, step in enumerate(transcript.steps, 1):
        try:
            compare(act(subject, step.action), step.panes)
            if step.dropped is not None:
                assert subject.dropped == step.dropped, f"{subject.dropped} dropped, not {step.dropped}"
            if step.held is not None:
                assert subject.output_watermark == step.held, f"output watermark {subject.output_watermark}"
        except AssertionError as error:
            raise AssertionError(f"{transcript.name}, step {number}, {step.action}: {error}") from error


def act(subject: Subject, action: Action) -> list[Pane]:
    """Do one thing to a subject."""
    if isinstance(action, Add):
        return subject.add(action.elements)
    return subject.advance(action.to) if isinstance(action, Watermark) else subject.clock(action.to)
