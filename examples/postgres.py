"""A table in PostgreSQL, exactly once: the number of the epoch is kept in the transaction that writes its rows.

Orders come from files that appear in a folder, a JSON object with `product` and `amount` a line. The amounts are summed
by product, and each epoch adds its sums to a table. A sum that is added twice would be wrong for ever, so
the transaction that adds them also moves the number of the last epoch on, and adds nothing if that is there
already: an epoch that is delivered again after a crash, or late by a driver that was replaced, changes nothing.

    pip install psycopg[binary]
    python -m examples.postgres "host=localhost dbname=shop" orders/ --checkpoint=shop-checkpoint

The name of the sink stands for the checkpoint: a pipeline that starts over on an empty one counts its epochs from 1
again, and needs another name.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import psycopg

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions

TABLES = """
    CREATE TABLE IF NOT EXISTS last_epoch (sink text PRIMARY KEY, epoch bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS totals (product text PRIMARY KEY, amount bigint NOT NULL);
"""
MOVE_ON = """
    INSERT INTO last_epoch VALUES (%s, %s)
    ON CONFLICT (sink) DO UPDATE SET epoch = excluded.epoch WHERE last_epoch.epoch < excluded.epoch
"""
ADD = """
    INSERT INTO totals VALUES (%s, %s)
    ON CONFLICT (product) DO UPDATE SET amount = totals.amount + excluded.amount
"""


class Totals:
    """Adds the amounts of each epoch to a table, once.

    Args:
        address: The database, as psycopg has it.
        sink: The name under which the last epoch is kept; one for each checkpoint.
    """

    def __init__(self, address: str, sink: str) -> None:
        self._address, self._sink = address, sink
        with psycopg.connect(address) as database:
            database.execute(TABLES)

    def add(self, epoch: int, orders: list[tuple[str, int]]) -> None:
        """Takes an epoch in one transaction, which is rolled back if anything fails."""
        sums = Counter[str]()
        for product, amount in orders:
            sums[product] += amount
        with psycopg.connect(self._address) as database, database.cursor() as cursor:
            cursor.execute(MOVE_ON, (self._sink, epoch))
            if cursor.rowcount:
                # In order of names, so that two transactions never wait for each other.
                cursor.executemany(ADD, sorted(sums.items()))


def build(pipeline: beam.Pipeline, orders: str, totals: Totals, continuous: bool) -> None:
    """Sums by product, from files to the table."""
    lines = pipeline | beam.io.ReadFromJson(orders, continuous=continuous)
    pairs = lines | beam.Map(lambda order: (order.product, order.amount))
    _ = pairs | beam.io.ForeachEpoch(totals.add)


def main(arguments: list[str] | None = None) -> None:
    """Run until the files are read, or for ever with `--continuous`."""
    parser = argparse.ArgumentParser(description="Sums of orders in PostgreSQL, exactly once.")
    parser.add_argument("database", help='its address, such as "host=localhost dbname=shop"')
    parser.add_argument("orders", help="files of JSON lines with product and amount")
    parser.add_argument("--sink", default="orders", help="a name for the checkpoint")
    parser.add_argument("--continuous", action="store_true", help="go on with files that appear")
    known, others = parser.parse_known_args(arguments)
    with beam.Pipeline(options=PipelineOptions(others)) as pipeline:
        build(pipeline, known.orders, Totals(known.database, known.sink), known.continuous)


if __name__ == "__main__":
    main(sys.argv[1:])
