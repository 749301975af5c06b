"""What the definition of the queries leaves open. Times in seconds."""

from __future__ import annotations

WINDOW = 10
"""Length of fixed and sliding windows, and of those of the clock."""
PERIOD = 5
"""From one sliding window to the next."""
GAP = 10
"""Without a bid for so long, a user's session ends."""
SKIP = 123
"""q2 takes every auction whose number is a multiple of this."""
STATES = ("OR", "ID", "CA")
CATEGORY = 10
"""Of q3."""
LAST = 10
"""Closed auctions of which q6 takes the mean."""
PATIENCE = 10
"""Event time for which a bid waits for its auction; longer than events are out of order."""
SHARDS = 4
"""Log files for each window of q10."""
