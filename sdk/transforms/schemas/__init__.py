"""Transforms that group, select and join elements by their fields."""
