"""Metrics: what user code counts beside its output, and how a program asks for it (`apache_beam.metrics`)."""
