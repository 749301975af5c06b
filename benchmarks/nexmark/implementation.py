"""Which function builds which query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.nexmark.pipelines.auctions import price_by_category, price_by_seller, winning_bids
from benchmarks.nexmark.pipelines.elementwise import currency_conversion, pass_through, selection
from benchmarks.nexmark.pipelines.joins import local_items, new_users
from benchmarks.nexmark.pipelines.windowed import highest_bid, hot_items, processing_time, user_sessions

Build = Callable[[Any, Any, Any], Any]
"""From a module, `headrace` or `apache_beam`, its functions of events, and a collection of events, to one of rows."""
TO_MEMORY: dict[str, Build] = {
    "q2": selection,
    "q3": local_items,
    "q4": price_by_category,
    "q5": hot_items,
    "q6": price_by_seller,
    "q7": highest_bid,
    "q8": new_users,
    "q9": winning_bids,
    "q11": user_sessions,
    "q12": processing_time,
}
"""Queries whose rows are few enough for the driver's memory."""
TO_PARQUET: dict[str, Build] = {"q0": pass_through, "q1": currency_conversion}
"""Queries that write as much as they read, as dicts; q10 writes files of its own."""
