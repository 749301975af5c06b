"""A source, enrichment, aggregation and alerting, for the story of a crash: `python -m tests.recovery PLACE OUT [die]`.

The source keeps each transaction until it is acknowledged, and sends again what is not. Acknowledgements take an epoch
to reach it, so that those of the newest checkpoint are lost when the aggregation dies. `docs/recovery.md` tells it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

from headrace.lowlevel import (
    BaseInjector,
    Batch,
    CallSink,
    Computation,
    Context,
    Delivery,
    InlineComputation,
    MemorySplit,
    Record,
    Topology,
)
from headrace.lowlevel.records.record import Emit
from headrace.runners.engine.options import RunOptions
from tests.spark.lives import KillAt, write

PRICES = {"tea": 300, "coffee": 450, "cake": 525}
"""Cents."""
ALERT = 2000
"""A balance from which on there is an alert, cents."""
OPTIONS = {"max_records_per_epoch": 10}
DIES = ("commit", 7)
"""When the aggregation has processed 70 transactions and 60 are in the checkpoint."""


class Transaction(NamedTuple):
    number: int
    account: str
    product: str


class Priced(NamedTuple):
    number: int
    account: str
    cents: int


TRANSACTIONS = [Transaction(n, f"account {n * 7 % 11}", list(PRICES)[n % 3]) for n in range(1, 101)]


class Source(BaseInjector):
    """Sends every transaction until it is acknowledged; `acknowledged` is the file in which it remembers how far."""

    record_ids = True

    def __init__(self, acknowledged: Path) -> None:
        self._file = acknowledged
        self._connected_at: object = None
        self._on_the_wire: int | None = None

    @property
    def acknowledged(self) -> int:
        """How many transactions need not be sent again."""
        return int(self._file.read_text()) if self._file.exists() else 0

    def start(self) -> tuple[int, int]:
        """Deliveries so far, and transactions so far."""
        return 0, 0

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next transactions. A new connection begins with the first that is not acknowledged."""
        if self._connected_at is None:
            self._connected_at = position
        deliveries, start = cast("tuple[int, int]", position)
        if position == self._connected_at:
            start = self.acknowledged
        sent = TRANSACTIONS[start : start + limit]
        batch = Batch(sent, [each.number for each in sent], [b"transaction %d" % each.number for each in sent])
        end = start + len(sent)
        return Delivery([MemorySplit(batch)], (deliveries + 1, end), done=end == len(TRANSACTIONS))

    def committed(self, position: object) -> None:
        """Acknowledge: what was committed before arrives, this is on its way."""
        if self._on_the_wire is not None:
            self._file.write_text(str(self._on_the_wire))
        _, self._on_the_wire = cast("tuple[int, int]", position)


class Enrichment(InlineComputation):
    """Adds what the product costs."""

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        priced = [Priced(each.number, each.account, PRICES[each.product]) for each in batch.values]
        emit("priced", Batch(priced, batch.timestamps))


@dataclass
class Account:
    """Balance and log are updated together, or not at all."""

    balance: int = 0
    log: list[int] = field(default_factory=list)
    """Numbers of transactions."""


class Aggregation(Computation):
    """The balance of an account."""

    def __init__(self, watch: Callable[[int], None]) -> None:
        self._watch = watch

    def initial_state(self) -> Account:
        return Account()

    def process_record(self, record: Record, context: Context) -> None:
        account, priced = context.state, record.value
        assert isinstance(account, Account) and isinstance(priced, Priced)
        self._watch(priced.number)
        account.balance += priced.cents
        account.log.append(priced.number)
        context.produce("balances", (context.key, account.balance, tuple(account.log)))


class Alerting(Computation):
    """Says once of an account that its balance is high."""

    def process_record(self, record: Record, context: Context) -> None:
        account, balance, _ = record.value
        if balance >= ALERT and context.state is None:
            context.state = "alerted"
            context.produce("alerts", (account, balance))


def unwatched(number: int) -> None:
    """Nobody looks."""


def topology(source: Source, sink: Callable[[str], CallSink], watch: Callable[[int], None] = unwatched) -> Topology:
    """The four nodes; `watch` is told of each transaction that the aggregation's code sees."""
    made = Topology()
    made.injector("transactions", source)
    made.inline("enrichment", Enrichment(), ["transactions"], ["priced"])
    made.computation("aggregation", Aggregation(watch), {"priced": lambda priced: priced.account}, ["balances"])
    made.computation("alerting", Alerting(), {"balances": lambda balance: balance[0]}, ["alerts"])
    for stream in ("balances", "alerts"):
        made.sink(stream, stream, sink(stream))
    return made


def main(place: str, out: str, die: str = "") -> None:
    from headrace.runners.spark import SparkRunner

    made = topology(Source(Path(place + ".acknowledged")), lambda stream: CallSink(write(Path(out), stream)))
    result = SparkRunner(intervals=2, steps=KillAt(*DIES) if die else None).run_topology(
        made, RunOptions(place, **OPTIONS)
    )
    print(result.counters["aggregation"]["duplicates"])


if __name__ == "__main__":
    main(*sys.argv[1:])
