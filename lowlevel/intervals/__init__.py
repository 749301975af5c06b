"""Which worker processes which keys: key intervals, their changes, sequencers (MillWheel paper §4.1, §6.2)."""
