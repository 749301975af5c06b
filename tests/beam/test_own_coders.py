"""Elements that only a coder of the user's own can encode, wherever elements go from step to step."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate

from headrace.runners.beam import HeadraceRunner


class Sealed:
    """A number that cannot be pickled."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self):
        raise TypeError("sealed")


class SealedCoder(coders.Coder):
    def encode(self, value):
        return str(value.number).encode()

    def decode(self, encoded):
        return Sealed(int(encoded))

    def is_deterministic(self):
        return True


class Largest(beam.CombineFn):
    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, element):
        return max(accumulator, element.number)

    def merge_accumulators(self, accumulators):
        return max(accumulators)

    def extract_output(self, accumulator):
        return accumulator


class LargestOfMany(Largest):
    """Takes many values at once."""

    def add_inputs(self, accumulator, elements):
        return max([accumulator, *(element.number for element in elements)])


class Running(beam.DoFn):
    """The sums of each key's numbers so far."""

    SUM = userstate.CombiningValueStateSpec("sum", sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(self, pair, total=beam.DoFn.StateParam(SUM), end=beam.DoFn.TimerParam(END)):
        total.add(pair[1].number)
        end.set(10)

    @userstate.on_timer(END)
    def at_end(self, key=beam.DoFn.KeyParam, total=beam.DoFn.StateParam(SUM)):
        yield (key.number if isinstance(key, Sealed) else key), total.read()


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registry = coders.registry
    before = dict(registry._coders)
    registry.register_coder(Sealed, SealedCoder)
    yield
    registry._coders.clear()
    registry._coders.update(before)


def sealed(collection, keyed=False):
    kind = tuple[str, Sealed] if keyed else Sealed
    return collection | beam.Map(
        lambda n: ("even" if n % 2 == 0 else "odd", Sealed(n)) if keyed else Sealed(n)
    ).with_output_types(kind)


def groups(numbers):
    return sealed(numbers, True) | beam.GroupByKey() | beam.MapTuple(lambda k, vs: (k, sum(v.number for v in vs)))


def combined(numbers):
    return sealed(numbers, True) | beam.CombinePerKey(Largest())


def combined_at_once(numbers):
    return sealed(numbers, True) | beam.CombinePerKey(LargestOfMany())


def in_sessions(numbers):
    return sealed(numbers, True) | beam.WindowInto(beam.window.Sessions(5)) | beam.CombinePerKey(Largest())


def in_state(numbers):
    return sealed(numbers, True) | beam.ParDo(Running())


def as_keys(numbers):
    keyed = sealed(numbers) | beam.Map(lambda each: (each, each)).with_output_types(tuple[Sealed, Sealed])
    return keyed | beam.GroupByKey() | beam.MapTuple(lambda k, vs: (k.number, [v.number for v in vs]))


def reshuffled(numbers):
    return sealed(numbers) | beam.Reshuffle() | beam.Map(lambda each: each.number)


def beside(numbers):
    side = beam.pvalue.AsList(sealed(numbers))
    return numbers | beam.Map(lambda n, others: (n, sum(each.number for each in others)), side)


EXPECTED = {
    groups: [("even", 6), ("odd", 4)],
    combined: [("even", 4), ("odd", 3)],
    combined_at_once: [("even", 4), ("odd", 3)],
    in_sessions: [("even", 4), ("odd", 3)],
    in_state: [("even", 6), ("odd", 4)],
    as_keys: [(n, [n]) for n in range(5)],
    reshuffled: list(range(5)),
    beside: [(n, 10) for n in range(5)],
}


@pytest.mark.parametrize("program", EXPECTED)
@pytest.mark.parametrize("runner", [HeadraceRunner, lambda: "DirectRunner"], ids=["headrace", "beam"])
def test_a_coder_of_the_users_own(program, runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "LocalRunner")
    with beam.Pipeline(runner=runner()) as pipeline:
        assert_that(program(pipeline | beam.Create(range(5))), equal_to(EXPECTED[program]))
