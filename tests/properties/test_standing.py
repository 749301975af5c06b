"""Functions that stand in a loop do what they do when they are called: the same elements, counts and errors."""

import logging
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel.record import Batch
from headrace.sdk.fusion.inlined import body_of
from headrace.transforms.window import TimestampedValue
from tests.properties.test_columnar import anything, run, stage_of

OFFSET = 3
TABLE = {0: "zero", 1: "one", 2: "two"}
v = 5
"""A name that loops use themselves."""


def many(number):
    return [number, (number, "x")]


def later(value):
    return TimestampedValue(value, 20)


STEPS = {
    "pair": lambda: beam.Map(lambda x: (x, OFFSET)),
    "three": lambda: beam.Map(lambda x: (x, str(x), [x])),
    "first": lambda: beam.Map(lambda x: x[0]),
    "last": lambda: beam.Map(lambda x: x[-1]),
    "part": lambda: beam.Map(lambda x: x[:2]),
    "whole": lambda: beam.Map(lambda x: (x, x)),
    "swap": lambda: beam.MapTuple(lambda a, b: (b, a)),
    "spread": lambda: beam.MapTuple(lambda a, b, c: {"a": a, "bc": (b, c)}),
    "alone": lambda: beam.MapTuple(lambda a: a),
    "same": lambda: beam.MapTuple(lambda a, b: (a, b)),
    "table": lambda: beam.Map(lambda x: TABLE[x % 3]),
    "text": lambda: beam.Map(lambda x: f"{x!r:>5}"),
    "plus": lambda: beam.Map(lambda x: x + OFFSET if x else len(TABLE)),
    "const": lambda: beam.Map(lambda x: "same"),
    "odd": lambda: beam.Filter(lambda x: x % 2),
    "big": lambda: beam.Filter(lambda x: x[0] > 2 or len(x) == 3),
    "own name": lambda: beam.Map(lambda x: (x, v)),
    "list": lambda: beam.FlatMap(lambda x: [x, (x, x)]),
    "items": lambda: beam.FlatMap(lambda x: x),
    "called": lambda: beam.FlatMap(many),
    "stamped": lambda: beam.Map(lambda x: later(x)),
    "tagged": lambda: beam.Map(lambda x: beam.pvalue.TaggedOutput("lost", x) if x == 2 else x),
}
VALUES = st.one_of(
    st.integers(-3, 9), st.tuples(st.integers(0, 3), st.integers(0, 3)), st.just(()), st.text(max_size=3)
)


def stages(names, keyed):
    """The stage with functions that stand in its loop, and the one that calls them all."""
    pipeline = beam.Pipeline("LocalRunner", argv=["--no_pipeline_type_check"])
    collection = pipeline | "In" >> anything()
    for number, name in enumerate(names):
        collection = collection | f"{name} {number}" >> STEPS[name]()
    collection | (beam.GroupByKey() if keyed else beam.Reshuffle())
    calling = stage_of(pipeline, "In")
    standing = stage_of(pipeline, "In")
    calling.plan.steps = [replace(step, body=None) for step in calling.plan.steps]
    return standing, calling


def told(error):
    """What an error says, but for the engine's own lines: they are shown where no function was entered."""
    lines = (error or "").splitlines()
    return [line for place, line in enumerate(lines) if place in (0, len(lines) - 1) or "test_standing" in line]


@given(st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=6), st.lists(VALUES, max_size=5), st.booleans())
def test_functions_in_the_loop_do_what_calls_do(names, values, keyed):
    standing, calling = stages(names, keyed)
    batches = [Batch(values, [1_000_000 * place for place in range(len(values))])]
    mine, theirs = run(standing, batches), run(calling, batches)
    assert told(mine.error) == told(theirs.error)
    assert mine.error or (mine.streams, mine.counts) == (theirs.streams, theirs.counts)


def source_of(stage):
    stage.setup()
    live = stage._live
    live.start_bundle()
    live.run(0, next(iter(stage.plan.entries.values())), Batch([(1, 2)], [0]), lambda stream, batch: None)
    (loop,) = live._loops.values()
    return "\n".join(loop.lines)


def test_a_chain_becomes_one_loop_without_calls_or_tuples():
    source = source_of(stages(["swap", "same", "big", "swap"], True)[0])
    body = source[source.index("for (") if "for (" in source else source.index("for ") :]
    assert not re.search(r"\bf\d+\(", body)
    assert body.count("append((") == 1


def test_names_that_the_loop_has_itself_are_not_mixed_up():
    standing, _ = stages(["own name"], False)
    assert "f0(v)" in source_of(standing)
    assert [row[0] for rows in run(standing, [Batch([1], [0])]).streams.values() for row in rows] == ["(1, 5)"]


closed = [lambda x, by=by: x + by for by in (1, 2)]


def adding(by):
    return lambda x: x + by


class Private:
    __name = 1

    def method(self):
        return lambda x: x.__name


CALLED = [
    adding(1),
    closed[0],
    lambda x: [y for y in x],
    lambda x: (_y := x),
    lambda x: (yield x),
    lambda x: locals(),
    lambda *x: x,
    Private().method(),
    lambda x: (lambda y: y)(x),
    lambda x: x is x[0],
    lambda x: logging.warning(x),
    print,
]


@pytest.mark.parametrize("number", range(len(CALLED)))
def test_what_needs_a_frame_of_its_own_is_called(number):
    assert body_of(CALLED[number]) is None


def test_a_function_of_another_release_is_known_by_its_constants_and_names():
    body = body_of(lambda x: (x, 1))
    assert body is not None
    assert body.fits(lambda x: (x, 1))
    assert not body.fits(lambda x: (x, 2))
    assert not body_of(lambda x: x.real).fits(lambda x: x.imag)
    assert body_of(lambda x: x is None) is not None


def test_the_error_shows_the_function_and_its_line():
    standing, _ = stages(["pair", "whole", "first", "plus"], False)
    error = run(standing, [Batch([1, None], [0, 0])]).error
    assert error is not None
    assert "lambda x: x + OFFSET if x else len(TABLE)" in error
    assert "in <lambda>" in error
    assert "test_standing.py" in error
