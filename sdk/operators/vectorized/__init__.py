"""Groupings of all keys of an interval at once, over columns."""
