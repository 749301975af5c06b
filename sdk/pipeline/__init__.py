"""Pipelines: built, compiled, recorded and run."""
