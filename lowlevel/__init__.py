"""MillWheel: computations, keyed state, timers, low watermarks and strong productions."""
