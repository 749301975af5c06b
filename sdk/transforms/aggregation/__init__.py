"""Transforms that combine values, per key or globally, exactly or approximately."""
