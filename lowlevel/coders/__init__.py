"""Coders: the serialization of keys and values (MillWheel paper §4.4)."""
