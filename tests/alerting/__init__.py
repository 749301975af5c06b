"""The shipped alert rules before a real Prometheus."""
