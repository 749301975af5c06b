"""The runner in memory: one thread, deterministic, with a clock and an order that a test controls."""
