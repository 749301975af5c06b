"""Headrace: a Beam-style SDK on MillWheel primitives, executed by Apache Spark."""

__version__ = "0.1.0.dev0"
