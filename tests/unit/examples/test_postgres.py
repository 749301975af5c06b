"""Effects in a database, exactly once, through the number of the epoch (examples/postgres.py)."""

from __future__ import annotations

import json

import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.utils.timestamp import Timestamp
from tests.postgresserver import programs, server
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne, write

psycopg = pytest.importorskip("psycopg")
ORDERS = [("tea", 1), ("coffee", 20), ("tea", 300), ("tea", 4000), ("coffee", 50_000)]


@pytest.fixture(scope="module")
def address():
    # `./dev test` installs one.
    if (found := programs()) is None:
        pytest.skip("no PostgreSQL server is installed")
    with server(found) as address:
        yield address


def totals(address):
    with psycopg.connect(address) as database:
        return dict(database.execute("SELECT product, amount FROM totals").fetchall())


@pytest.mark.slow
@pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
def test_each_order_is_added_once_whenever_the_driver_dies(address, tmp_path, step):
    from examples import postgres

    with psycopg.connect(address) as database:
        database.execute("DROP TABLE IF EXISTS totals, last_epoch")
    lines = [json.dumps({"product": product, "amount": amount}) + "\n" for product, amount in ORDERS]
    for number, line in enumerate(lines):
        write(tmp_path / "orders" / f"{number}.json", line)

    def run(scheduler):
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
        with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
            postgres.build(pipeline, f"{tmp_path}/orders/*", postgres.Totals(address, "orders"), continuous=False)

    with pytest.raises(Crash):
        run(CrashAt(step))
    run(OneByOne())
    assert totals(address) == {"tea": 4301, "coffee": 50_020}
    # A driver that was replaced comes late, with what was another's.
    postgres.Totals(address, "orders").add(3, [("tea", 7)])
    assert totals(address)["tea"] == 4301


@pytest.mark.slow
def test_a_transaction_that_fails_leaves_nothing(address):
    from examples import postgres

    sink = postgres.Totals(address, "failing")
    before = totals(address)
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        sink.add(1, [("a", 5), ("tea", 2**62), ("tea", 2**62)])
    assert totals(address) == before
    sink.add(1, [("a", 5)])
    assert totals(address) == {**before, "a": 5}


class TestForeachEpoch:
    def test_elements_with_their_times(self):
        seen = []
        with beam.Pipeline(LocalRunner(scheduler=OneByOne())) as pipeline:
            rows = pipeline | beam.Create(["a", "b"]) | beam.Map(lambda row: beam.window.TimestampedValue(row, 7))
            rows | beam.io.ForeachEpoch(lambda *call: seen.append(call), with_timestamps=True)
        assert seen == [(1, [("a", Timestamp(7))]), (2, [("b", Timestamp(7))])]

    def test_what_is_no_function(self):
        with pytest.raises(TypeError, match="ForeachEpoch takes a function of epoch and elements, got 5"):
            beam.io.ForeachEpoch(5)
