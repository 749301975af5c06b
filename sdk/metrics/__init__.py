"""Metrics: counts that user code reports beside its output, and queries for them (`apache_beam.metrics`)."""
