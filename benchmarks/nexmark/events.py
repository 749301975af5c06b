"""The events of the auction site as rows: one column for each field, empty where an event's kind has no such field."""

from __future__ import annotations

import pyarrow as pa

PERSON, AUCTION, BID = 0, 1, 2
"""What a row's `kind` may be."""
HEAD = [("kind", pa.int8()), ("time", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))]
"""Of every event: its kind, and its event time twice, as whole microseconds UTC and as an instant."""
PERSONS = [(name, pa.string()) for name in ("name", "email", "card", "city", "state")]
AUCTIONS = [
    ("item", pa.string()),
    ("description", pa.string()),
    ("initial_bid", pa.int64()),
    ("reserve", pa.int64()),
    ("expires", pa.int64()),
    ("seller", pa.int64()),
    ("category", pa.int64()),
]
"""`expires` is in microseconds UTC, prices in cents."""
BIDS = [(name, pa.int64()) for name in ("auction", "bidder", "price")]
SCHEMA = pa.schema([*HEAD, ("id", pa.int64()), *PERSONS, *AUCTIONS, *BIDS, ("extra", pa.string())])
"""`id` is that of a person or an auction; `extra` makes an event as long as the definition says."""
CONTENTS = [name for name in SCHEMA.names if name != "timestamp"]
"""Every field once."""
