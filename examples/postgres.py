"""A table in PostgreSQL, exactly once: each epoch is a transaction that keeps the number of the epoch with its rows.

Orders come from files that appear in a folder, a JSON object with `product` and `amount` a line. The amounts are summed
by product, and each epoch brings the sums that have changed into a table. An epoch that comes again after a crash, or
late from a driver that was replaced, changes nothing.

    pip install psycopg[binary]
    python -m examples.postgres "host=localhost dbname=shop" orders/ --checkpoint=shop-checkpoint
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

import psycopg

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.window import GlobalWindows

TABLE = "CREATE TABLE IF NOT EXISTS totals (product text PRIMARY KEY, amount bigint NOT NULL)"


def build(pipeline: beam.Pipeline, orders: str, database: str, continuous: bool) -> None:
    """Sums by product, from files to the table."""
    lines = pipeline | beam.io.ReadFromJson(orders, continuous=continuous)
    at_once = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.ACCUMULATING
    )
    pairs = lines | beam.Map(lambda order: (order.product, order.amount)) | at_once
    _ = (
        pairs
        | beam.CombinePerKey(sum)
        | beam.io.WriteToDatabase(
            partial(psycopg.connect, database),
            "totals",
            ["product", "amount"],
            mode="upsert",
            keys=["product"],
            sink="orders",
        )
    )


def main(arguments: list[str] | None = None) -> None:
    """Run until the files are read, or for ever with `--continuous`."""
    parser = argparse.ArgumentParser(description="Sums of orders in PostgreSQL, exactly once.")
    parser.add_argument("database", help='its address, such as "host=localhost dbname=shop"')
    parser.add_argument("orders", help="files of JSON lines with product and amount")
    parser.add_argument("--continuous", action="store_true", help="go on with files that appear")
    known, others = parser.parse_known_args(arguments)
    with psycopg.connect(known.database) as database:
        database.execute(TABLE)
    with beam.Pipeline(options=PipelineOptions(others)) as pipeline:
        build(pipeline, known.orders, known.database, known.continuous)


if __name__ == "__main__":
    main(sys.argv[1:])
