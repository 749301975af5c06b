"""The queries in SQL, over a table `events`, as DuckDB has it: the right results."""

from __future__ import annotations

from benchmarks.nexmark.events import AUCTION, BID, CONTENTS, PERSON
from benchmarks.nexmark.generator import SECOND
from benchmarks.nexmark.query import LOGGED
from benchmarks.nexmark.settings import CATEGORY, GAP, LAST, PERIOD, SKIP, STATES, WINDOW

_WINDOW, _PERIOD, _GAP = WINDOW * SECOND, PERIOD * SECOND, GAP * SECOND
_WINNING = f"""
    WITH winning AS (
        SELECT a.id, a.seller, a.category, a.expires, b.bidder, b.price, b.time
        FROM events a JOIN events b ON b.auction = a.id
        WHERE a.kind = {AUCTION} AND b.kind = {BID}
            AND b.time >= a.time AND b.time < a.expires AND b.price >= a.reserve
        QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.time) = 1
    )
"""


def _starts(time: str) -> str:
    """Where the sliding windows of an instant begin; there are two, as a window is two periods long."""
    latest = f"{time} // {_PERIOD} * {_PERIOD}"
    return f"unnest([{latest}, {latest} - {_PERIOD}])"


def _start(time: str) -> str:
    """Where the fixed window of an instant begins."""
    return f"{time} // {_WINDOW} * {_WINDOW}"


SQL = {
    "q0": f"SELECT {', '.join(CONTENTS)} FROM events",
    "q1": f"SELECT auction, bidder, price * 89 // 100, time, extra FROM events WHERE kind = {BID}",
    "q2": f"SELECT auction, price FROM events WHERE kind = {BID} AND auction % {SKIP} = 0",
    "q3": f"""
        SELECT p.name, p.city, p.state, a.id
        FROM events a JOIN events p ON a.seller = p.id
        WHERE a.kind = {AUCTION} AND p.kind = {PERSON} AND a.category = {CATEGORY} AND p.state IN {STATES}
    """,
    "q4": f"""
        {_WINNING}, placed AS (SELECT category, {_starts("expires")} AS start, price FROM winning)
        SELECT category, start, sum(price)::DOUBLE / count(*) FROM placed GROUP BY category, start
    """,
    "q5": f"""
        WITH placed AS (SELECT {_starts("time")} AS start, auction FROM events WHERE kind = {BID}),
        counts AS (SELECT start, auction, count(*) AS bids FROM placed GROUP BY start, auction)
        SELECT start, auction, bids FROM counts QUALIFY bids = max(bids) OVER (PARTITION BY start)
    """,
    "q6": f"""
        {_WINNING}, latest AS (
            SELECT seller, price FROM winning
            QUALIFY row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) <= {LAST}
        )
        SELECT seller, sum(price)::DOUBLE / count(*) FROM latest GROUP BY seller
    """,
    "q7": f"""
        SELECT {_start("time")} AS start, auction, bidder, price, time FROM events WHERE kind = {BID}
        QUALIFY price = max(price) OVER (PARTITION BY start)
    """,
    "q8": f"""
        SELECT p.id, p.name, a.id, a.reserve, {_start("p.time")}
        FROM events a JOIN events p ON a.seller = p.id AND {_start("a.time")} = {_start("p.time")}
        WHERE a.kind = {AUCTION} AND p.kind = {PERSON}
    """,
    "q9": f"{_WINNING} SELECT id, seller, category, expires, bidder, price, time FROM winning",
    "q10": f"SELECT {_start('time')}, {', '.join(f'coalesce({name}, 0)' for name in LOGGED)} FROM events",
    "q11": f"""
        WITH begun AS (
            SELECT bidder, time, coalesce(time - lag(time) OVER its >= {_GAP}, true)::INT AS begins FROM events
            WHERE kind = {BID} WINDOW its AS (PARTITION BY bidder ORDER BY time)
        ), numbered AS (SELECT *, sum(begins) OVER (PARTITION BY bidder ORDER BY time) AS session FROM begun)
        SELECT bidder, min(time), max(time) + {_GAP}, count(*) FROM numbered GROUP BY bidder, session
    """,
    "q12": f"SELECT bidder, count(*) FROM events WHERE kind = {BID} GROUP BY bidder",
}
"""Name of a query -> its SQL."""
