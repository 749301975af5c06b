"""Low watermarks: how far event time has advanced, and what holds it back (MillWheel paper §4.5)."""
