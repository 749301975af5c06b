"""A query: what it gives, to the last row, so that results of every system can be held against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from benchmarks.nexmark.events import CONTENTS, SCHEMA

_TEXTS = ("name", "city", "state", "extra")


@dataclass(frozen=True, slots=True)
class Query:
    """One query; a result has one row for each thing put out, in any order, times as int64 microseconds UTC."""

    name: str
    title: str
    reads: tuple[str, ...]
    """The fields of events that it looks at."""
    schema: pa.Schema
    """Of its result."""
    settle: Callable[[pa.Table], pa.Table] | None = None
    """What is the same for all systems in a result, if that is not all of it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the result's columns."""
        return tuple(self.schema.names)


def _result(*names: str) -> pa.Schema:
    types = {"mean": pa.float64(), **dict.fromkeys(_TEXTS, pa.string())}
    return pa.schema([(name, types.get(name, pa.int64())) for name in names])


def _totals(result: pa.Table) -> pa.Table:
    """The sum of all counts of each key."""
    key, count = result.schema.names
    summed = result.group_by(key).aggregate([(count, "sum")]).select([key, f"{count}_sum"])
    return summed.rename_columns([key, count])


_ALL = pa.schema([field for field in SCHEMA if field.name != "timestamp"])
_CLOSING = ("kind", "time", "id", "reserve", "expires", "seller", "category", "auction", "bidder", "price")
LOGGED = ("kind", "time", "id", "seller", "category", "auction", "bidder", "price")
"""Fields of a line of q10's logs, 0 for those that an event does not have."""

Q0 = Query("q0", "pass through", tuple(CONTENTS), _ALL)
"""Every event as it came."""

Q1 = Query(
    "q1",
    "currency conversion",
    ("kind", "time", "auction", "bidder", "price", "extra"),
    _result("auction", "bidder", "price", "time", "extra"),
)
"""Every bid, its price in euros at 0.89 to the dollar, in whole cents."""

Q2 = Query("q2", "selection", ("kind", "auction", "price"), _result("auction", "price"))
"""Bids for certain auctions."""

Q3 = Query(
    "q3",
    "local item suggestion",
    ("kind", "id", "name", "city", "state", "seller", "category"),
    _result("name", "city", "state", "auction"),
)
"""Who sells in a category in some states: an incremental join, whichever of person and auction comes first."""

Q4 = Query("q4", "average price per category", _CLOSING, _result("category", "start", "mean"))
"""The mean of winning bids of auctions that closed in each sliding window."""

Q5 = Query("q5", "hot items", ("kind", "time", "auction"), _result("start", "auction", "bids"))
"""For each sliding window the auctions with the most bids, all of them if several have as many."""

Q6 = Query("q6", "average selling price by seller", _CLOSING, _result("seller", "mean"))
"""For each seller the mean of the winning bids of the last ten auctions that closed with one."""

Q7 = Query(
    "q7",
    "highest bid",
    ("kind", "time", "auction", "bidder", "price"),
    _result("start", "auction", "bidder", "price", "time"),
)
"""For each fixed window the bid with the highest price, all of them if several have it."""

Q8 = Query(
    "q8",
    "monitor new users",
    ("kind", "time", "id", "name", "reserve", "seller"),
    _result("person", "name", "auction", "reserve", "start"),
)
"""Who opened auctions in the same fixed window in which they came."""

Q9 = Query(
    "q9",
    "winning bids",
    _CLOSING,
    _result("auction", "seller", "category", "expires", "bidder", "price", "time"),
)
"""For each auction the highest bid while it was open, if it is as high as the reserve; of equal ones the first."""

Q10 = Query("q10", "log to files", LOGGED, _result("start", *LOGGED))
"""Every event as a line of a file of its fixed window, which has a few files."""

Q11 = Query("q11", "user sessions", ("kind", "time", "bidder"), _result("bidder", "start", "end", "bids"))
"""How often each user bid in each session."""

Q12 = Query("q12", "processing-time windows", ("kind", "bidder"), _result("bidder", "bids"), settle=_totals)
"""How often each user bid in windows of the clock, by when a bid is read; only what adds up over all windows does not
depend on the clock."""

QUERIES = {query.name: query for query in (Q0, Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8, Q9, Q10, Q11, Q12)}
