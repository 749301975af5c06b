"""One bundle of one computation: records and timers in, a delta of state and productions out (MillWheel paper §5)."""
