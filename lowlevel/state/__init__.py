"""Persistent state of one key interval (MillWheel paper §4.4)."""
