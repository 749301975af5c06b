"""Combining before the shuffle, so that one accumulator is shuffled instead of many elements."""
