"""Sums in PostgreSQL, exactly once (examples/postgres.py), and functions that get the number of the epoch."""

from __future__ import annotations

import json

import pytest

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.utils.timestamp import Timestamp
from tests.postgresserver import server_or_skip
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne, write

psycopg = pytest.importorskip("psycopg")
ORDERS = [("tea", 1), ("coffee", 20), ("tea", 300), ("tea", 4000), ("coffee", 50_000)]


@pytest.fixture(scope="module")
def address():
    yield from server_or_skip()


def totals(address):
    with psycopg.connect(address) as database:
        return dict(database.execute("SELECT product, amount FROM totals").fetchall())


@pytest.mark.slow
@pytest.mark.parametrize("step", ["commit", "deliver", "delivered"])
def test_each_order_is_added_once_whenever_the_driver_dies(address, tmp_path, step):
    from examples import postgres

    with psycopg.connect(address) as database:
        database.execute("DROP TABLE IF EXISTS totals, headrace_epochs")
        database.execute(postgres.TABLE)
    lines = [json.dumps({"product": product, "amount": amount}) + "\n" for product, amount in ORDERS]
    for number, line in enumerate(lines):
        write(tmp_path / "orders" / f"{number}.json", line)

    def run(scheduler):
        options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
        with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
            postgres.build(pipeline, f"{tmp_path}/orders/*", address, continuous=False)

    with pytest.raises(Crash):
        run(CrashAt(step))
    run(OneByOne())
    assert totals(address) == {"tea": 4301, "coffee": 50_020}


@pytest.mark.slow
def test_from_the_command_line(address, tmp_path):
    from examples import postgres

    with psycopg.connect(address) as database:
        database.execute("DROP TABLE IF EXISTS totals")
    write(tmp_path / "orders.json", json.dumps({"product": "tea", "amount": 3}) + "\n")
    postgres.main([address, f"{tmp_path}/orders.json", "--runner=LocalRunner"])
    assert totals(address) == {"tea": 3}


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
