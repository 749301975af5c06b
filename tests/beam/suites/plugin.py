"""Plugin of pytest that runs Beam's tests with HeadraceRunner, and judges their outcomes by the tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.beam.suites.substitution import at_most, prepare_workers, substitute
from tests.beam.suites.tables import exceptions, failing_with_beam, name_of, suites


def pytest_addoption(parser: pytest.Parser) -> None:
    """The runner of the tests, and what is put up with."""
    parser.addoption("--suite-runner", choices=("local", "spark", "beam"), default="local")
    parser.addoption("--suite-seconds", type=int, default=60, help="longest time of a test")
    parser.addoption("--suite-plain", action="store_true", help="judge no test by the tables of exceptions")


def pytest_configure(config: pytest.Config) -> None:
    """Put the runner in the place of Beam's."""
    substitute(config.getoption("--suite-runner"))
    if config.getoption("--suite-runner") == "spark":
        prepare_workers()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is no part of a suite, and mark what is known to fail."""
    left_out, kept = [], []
    for item in items:
        module, test = name_of(item.nodeid)
        (kept if suites()[module].has(test) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
    runner = config.getoption("--suite-runner")
    if runner == "beam" or config.getoption("--suite-plain"):
        return
    known = exceptions(runner)
    for item in items:
        name = "::".join(name_of(item.nodeid))
        if name in known:
            item.add_marker(pytest.mark.xfail(reason=known[name].reason, strict=not known[name].passes))
        elif name in failing_with_beam():
            item.add_marker(pytest.mark.xfail(reason="fails with Beam's runner", strict=False))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Stop a test that takes too long."""
    with at_most(item.config.getoption("--suite-seconds")):
        return (yield)
