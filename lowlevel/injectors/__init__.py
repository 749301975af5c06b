"""Injectors: sources that bring external data into a topology (MillWheel paper §4.3)."""
