"""The high-level model: what is computed, where in event time, when, and how results relate."""
