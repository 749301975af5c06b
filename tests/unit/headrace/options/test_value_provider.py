"""Values of options that are read while a pipeline runs."""

from __future__ import annotations

import pickle
from argparse import Namespace
from collections.abc import Iterator

import pytest

import headrace as beam
from headrace.options.option import Parser
from headrace.options.value_provider import (
    NestedValueProvider,
    RuntimeValueProvider,
    RuntimeValueProviderError,
    StaticValueProvider,
    ValueProvider,
    check_accessible,
)


def parsed(*flags: str) -> Namespace:
    parser = Parser(add_help=False)
    parser.add_value_provider_argument("--factor", type=int, default=2)
    parser.add_value_provider_argument("inputs", default="none")
    return parser.known(flags)[0]


class Scale:
    def __init__(self, factor: ValueProvider) -> None:
        self.factor = factor

    @check_accessible(["factor"])
    def of(self, number: int) -> int:
        return number * self.factor.get()


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    RuntimeValueProvider.set_runtime_options(None)
    yield
    RuntimeValueProvider.set_runtime_options(None)


def test_an_option_that_is_given_is_known_at_once() -> None:
    options = parsed("--factor=3", "there")
    assert options.factor == StaticValueProvider(int, "3") == 3
    assert options.factor.get() == Scale(options.factor).of(1) == 3
    assert options.inputs.get() == str(options.inputs) == "there"
    assert StaticValueProvider(str, "3") != options.factor


def test_an_option_that_is_not_given_has_its_default_while_the_pipeline_runs() -> None:
    scale = Scale(parsed().factor)
    halved = NestedValueProvider(scale.factor, lambda factor: factor / 2)
    assert not scale.factor.is_accessible() and not halved.is_accessible()
    with pytest.raises(RuntimeValueProviderError, match="option: factor, type: int, default_value: 2"):
        scale.factor.get()
    with pytest.raises(RuntimeValueProviderError, match="call of in a function"):
        scale.of(1)
    assert [1, 2] | beam.Map(lambda number: (scale.of(number), halved.get())) == [(2, 1.0), (4, 1.0)]


def test_a_worker_knows_that_the_pipeline_runs() -> None:
    provider = RuntimeValueProvider("factor", int, 2)
    assert not pickle.loads(pickle.dumps(provider)).is_accessible()
    RuntimeValueProvider.set_runtime_options({"factor": "7"})
    assert provider.get() == 7
    sent = pickle.dumps(provider)
    RuntimeValueProvider.set_runtime_options(None)
    assert pickle.loads(sent).get() == 2


def test_the_providers_are_named_as_in_beam() -> None:
    provider = NestedValueProvider(RuntimeValueProvider("a", str, "x"), len)
    assert str(provider) == (
        "NestedValueProvider(value: RuntimeValueProvider(option: a, type: str, default_value: 'x'), translator: len)"
    )
