"""Default labels: what they are made of, that no other line of a program is in them, and when they are numbered."""

from __future__ import annotations

import copy
import functools
import linecache
import re
import sys
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import headrace as beam
from headrace.lowlevel.checkpoint.compatibility import Consent, Stored, change_of
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, DEFAULT_NAME, Fingerprint
from headrace.sdk.model.labels import label_of, place_of


def scaled(values: Any, by: object = 1) -> object:
    return by


class Scale:
    def __call__(self, values: Any) -> object:
        return values


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __reduce__(self) -> tuple[object, ...]:
        return Slotted, (self.factor,)


class Described(Scale):
    def __repr__(self) -> str:
        return "Described(3)"


def loaded(text: str, path: Path, name: str = "function") -> Callable[..., object]:
    """A function of a program's text."""
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    scope: dict[str, Any] = {}
    exec(compile(text, str(path), "exec", dont_inherit=True), scope)
    function: Callable[..., object] = scope[name]
    return function


@pytest.mark.parametrize(
    ("function", "label"),
    [
        (len, "len"),
        (scaled, "scaled"),
        (Scale().__call__, "__call__"),
        (Scale(), "<Scale object>"),
        (Described(), "Described(3)"),
        ([Scale(), 3], "[<Scale object>, 3]"),
        ({"b", "a", "c"}, "{'a', 'b', 'c'}"),
        (functools.partial(scaled, 2, by="x"), "<partial scaled(2, by='x')>"),
        (functools.partial(scaled, by=scaled), "<partial scaled(by=scaled)>"),
        (functools.partial(Scale(), Scale()), "<partial <Scale object>(<Scale object>)>"),
        (lambda values: sum(values), "<lambda values: sum(values)>"),
        (lambda line: line.split("/")[0] + "#", "<lambda line: line.split('÷')[0] + '♯'>"),
    ],
)
def test_a_label_has_no_line_and_no_address(function: object, label: str) -> None:
    assert label_of(function) == label


def test_f_strings_are_written_alike_by_all_releases_of_python() -> None:
    """With one kind of quotes outside, whatever is inside; `ast.unparse` changed its choice in Python 3.12."""
    assert label_of(lambda x: f"{x!r:>3}{x['a']:{x}} {{}}") == "<lambda x: f\"{x!r:>3}{x['a']:{x}} {}\">"


def test_a_long_lambda_is_shortened_and_stays_different_from_others() -> None:
    one, other = (
        label_of(lambda a_long_name: a_long_name + a_long_name + a_long_name + a_long_name + 1),
        label_of(lambda a_long_name: a_long_name + a_long_name + a_long_name + a_long_name + 2),
    )
    assert one != other
    assert one[:30] == other[:30] == "<lambda a_long_name: a_long_na"
    assert len(one) < 60


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n\n\nfunction = lambda v: sum(v)",
        "import os\nfunction = (\n    lambda v:  # all of them\n        sum(\n            v\n        )\n)",
        "other, function = lambda v: max(v), lambda v: sum(v)",
        "def make():\n    return lambda v: sum(v)\nfunction = make()",
    ],
)
def test_layout_and_other_lines_are_not_in_a_label(text: str, tmp_path: Path) -> None:
    assert label_of(loaded(text, tmp_path / "program.py")) == "<lambda v: sum(v)>"


def test_a_function_without_its_source_has_a_digest_of_its_code(tmp_path: Path) -> None:
    """Of what it does, not of where it stands."""
    labels = {label_of(eval(f"{begin}(lambda v: sum(v))")) for begin in ("", "(1, 2) and \\\n")}
    assert len(labels) == 1
    assert labels != {label_of(eval("lambda v: max(v)"))}
    # A file that has changed since it was loaded is not the source of the function.
    function = loaded("function = lambda v: sum(v)", tmp_path / "program.py")
    (tmp_path / "program.py").write_text("function = lambda v: max(v)", encoding="utf-8")
    linecache.checkcache(str(tmp_path / "program.py"))
    assert label_of(function) in labels


def test_a_label_is_the_same_under_a_debugger() -> None:
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        label = label_of(lambda v: sum(v))
    finally:
        sys.settrace(before)
    assert label == "<lambda v: sum(v)>"


def test_a_message_says_where_a_lambda_is() -> None:
    assert place_of(lambda: 1).startswith("<lambda at test_default_labels.py:")


# Several steps with one label


def sums(*factors: int, labels: tuple[str | None, ...] = ()) -> beam.Pipeline:
    """A pipeline with a sum behind each factor."""
    pipeline = beam.Pipeline("LocalRunner")
    pairs = pipeline | beam.Create([("a", 1)])
    for number, factor in enumerate(factors):
        step: Any = beam.CombinePerKey(lambda values: sum(values))
        label = labels[number] if labels else None
        _ = pairs | f"Times {factor}" >> beam.Map(scaled, by=factor) | (step if label is None else label >> step)
    return pipeline


SUM = "CombinePerKey(<lambda values: sum(values)>)"


def test_equal_labels_of_functions_without_names_are_numbered() -> None:
    assert [step.full_label for step in sums(2, 3, 5).steps if "Combine" in step.full_label] == [
        SUM,
        f"{SUM}_2",
        f"{SUM}_3",
    ]
    twice = beam.Pipeline("LocalRunner") | beam.Create([1])
    for _ in range(2):
        _ = twice | beam.Map(Scale()) | beam.Map(functools.partial(scaled, by=3))
    labels = [step.full_label for step in twice.pipeline.steps]
    assert labels == [
        "Create",
        *("Map(<Scale object>)", "Map(<partial scaled(by=3)>)"),
        *("Map(<Scale object>)_2", "Map(<partial scaled(by=3)>)_2"),
    ]


@pytest.mark.parametrize(
    "transform", [lambda: beam.Map(scaled), lambda: beam.GroupByKey(), lambda: "mine" >> beam.Map(Scale())]
)
def test_equal_labels_are_refused_as_in_beam(transform: Callable[[], Any]) -> None:
    values = beam.Pipeline("LocalRunner") | beam.Create([("a", 1)])
    _ = values | transform()
    with pytest.raises(RuntimeError, match="give this one a label of its own"):
        _ = values | transform()


def refusals(before: beam.Pipeline, after: beam.Pipeline, consent: Consent | None = None) -> tuple[str, ...]:
    """Why the state of one program is not that of another."""
    old, new = (Fingerprint.of(pipeline.topology()) for pipeline in (before, after))
    return change_of(Stored(topology=old), new, consent or Consent()).refused


def test_one_step_keeps_its_state_whatever_its_input() -> None:
    assert not refusals(sums(2), sums(3))


@pytest.mark.parametrize("after", [(2,), (3, 2), (2, 7), (7, 2, 3), (2, 3, 7)])
def test_steps_that_are_alike_are_told_apart(after: tuple[int, ...]) -> None:
    """Another number, order or input of steps with one label: none of them gets the state of another."""
    reasons = refusals(sums(2, 3), sums(*after))
    assert any("may be that of another step" in reason for reason in reasons)
    assert not refusals(sums(2, 3), sums(2, 3))


def test_the_remedy_of_the_refusal_leads_to_the_right_state() -> None:
    """The step to which the stored data belongs is given the stored label, the new one another."""
    before, after = sums(2), sums(7, 2, labels=("New", SUM))
    assert refusals(before, sums(7, 2))
    assert not refusals(before, after)
    old, new = (Fingerprint.of(pipeline.topology()) for pipeline in (before, after))
    change = change_of(Stored(topology=old), new, Consent())
    assert change.kept >= {(COMPUTATION, SUM)}
    assert (COMPUTATION, "New") in change.added


def test_discarding_begins_anew() -> None:
    old, new = (Fingerprint.of(sums(*factors).topology()) for factors in ((2,), (7, 2)))
    change = change_of(Stored(topology=old), new, Consent(discarded={SUM}))
    assert not change.refused
    assert {(COMPUTATION, SUM), (COMPUTATION, f"{SUM}_2")} <= change.added


@beam.ptransform_fn
def Total(pairs: Any, function: Callable[..., object], factor: int) -> Any:  # a transform's name
    """A composite with a keyed step of a name inside."""
    return pairs | beam.Map(scaled, by=factor) | beam.CombinePerKey(sum)


def test_steps_inside_of_steps_that_are_alike_are_told_apart() -> None:
    def composites(*factors: int) -> beam.Pipeline:
        pipeline = beam.Pipeline("LocalRunner")
        pairs = pipeline | beam.Create([("a", 1)])
        for factor in factors:
            _ = pairs | Total(lambda value: value, factor)
        return pipeline

    member = Fingerprint.of(composites(1).topology()).of_kind(COMPUTATION)[
        "Total(<lambda value: value>)/CombinePerKey(sum)"
    ]
    assert dict(member.signature)[DEFAULT_NAME] == "1 of 1"
    assert not refusals(composites(2, 3), composites(2, 3))
    assert refusals(composites(2, 3), composites(3, 2))
    assert refusals(composites(2, 3), composites(2))


def test_values_of_closures_tell_steps_apart() -> None:
    def at_least(low: object) -> Callable[..., object]:
        return lambda values: max(low, *values)

    def floors(*lows: object) -> beam.Pipeline:
        pipeline = beam.Pipeline("LocalRunner")
        pairs = pipeline | beam.Create([("a", 1)])
        for low in lows:
            _ = pairs | beam.CombinePerKey(at_least(low))
        return pipeline

    assert not refusals(floors(1, 2), floors(1, 2))
    assert refusals(floors(1, 2), floors(2, 1))
    assert not refusals(floors(1, scaled), floors(1, scaled))
    assert not refusals(floors(Scale(), {"a", "b"}), floors(Scale(), {"b", "a"}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal(1), Decimal(2)),
        (date(2026, 1, 1), date(2026, 1, 2)),
        (timedelta(1), timedelta(2)),
        (re.compile("a"), re.compile("b")),
        (range(1), range(2)),
        (Slotted(1), Slotted(2)),
        (Fraction(1, 2), Fraction(1, 3)),
        ([Decimal(1)], [Decimal(2)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_without_a_dict_tell_steps_apart(one: object, other: object) -> None:
    def picking(low: object) -> Callable[..., object]:
        return lambda values: (low, *values)

    def picks(*lows: object) -> beam.Pipeline:
        pipeline = beam.Pipeline("LocalRunner")
        pairs = pipeline | beam.Create([("a", 1)])
        for low in lows:
            _ = pairs | beam.CombinePerKey(picking(low))
        return pipeline

    assert not refusals(picks(one, other), picks(copy.deepcopy(one), copy.deepcopy(other)))
    assert refusals(picks(one, other), picks(other, one))


def test_the_label_of_a_refusal_is_that_of_the_transform_which_the_program_writes() -> None:
    def program(function: Any, label: str | None = None) -> beam.Pipeline:
        pipeline = beam.Pipeline("LocalRunner")
        step: Any = beam.CombineGlobally(function)
        _ = pipeline | beam.Create([1]) | (step if label is None else label >> step)
        return pipeline

    before = program(lambda values: sum(values))
    reasons = refusals(before, program(lambda values: max(values)))
    found = [re.findall("if only the function was edited, label the step '([^']*)'[,;]", reason) for reason in reasons]
    ((label,),) = {tuple(labels) for labels in found}
    assert not refusals(before, program(lambda values: max(values), label))


@pytest.mark.parametrize(("transform", "rest"), [(beam.CombinePerKey, ""), (beam.CombineGlobally, "/Combine")])
def test_a_label_of_release_0_1_is_refused_with_the_label_that_goes_on(transform: Any, rest: str) -> None:
    """That release wrote the line of a lambda."""

    def program(label: str | None = None) -> Fingerprint:
        pipeline = beam.Pipeline("LocalRunner")
        step = transform(lambda values: sum(values))
        _ = pipeline | beam.Create([("a", 1)]) | (step if label is None else label >> step)
        return Fingerprint.of(pipeline.topology())

    line = f"{transform.__name__}(<lambda at program.py:12>)"
    old = program(line)
    assert old.of_kind(COMPUTATION)[f"{line}{rest}"]
    reasons = change_of(Stored(topology=old), program(), Consent()).refused
    assert reasons
    assert all(f"give the step of this program that it is the label {line!r}, or" in reason for reason in reasons)
    assert not change_of(Stored(topology=old), program(line), Consent()).refused


def test_an_edited_function_without_a_name_is_another_step(tmp_path: Path) -> None:
    """The refusal says the label with which the step goes on with its state."""

    def program(function: Any, label: str | None = None) -> beam.Pipeline:
        pipeline = beam.Pipeline("LocalRunner")
        step: Any = beam.CombinePerKey(function)
        _ = pipeline | beam.Create([("a", 1)]) | (step if label is None else label >> step)
        return pipeline

    before = program(lambda values: sum(values))
    (reason,) = refusals(before, program(lambda values: max(values)))
    assert f"if only the function was edited, label the step {SUM!r}" in reason
    assert not refusals(before, program(lambda values: max(values), SUM))


def test_a_class_is_called_by_its_name_though_its_instances_have_labels() -> None:
    class Labelled:
        def __init__(self, value: object) -> None:
            self.value = value

        def default_label(self) -> str:
            return f"Labelled({self.value})"

    assert label_of(Labelled) == place_of(Labelled) == "Labelled"
    assert label_of(Labelled(3)) == "Labelled(3)"
