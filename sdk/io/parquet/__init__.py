"""Parquet files as sources and sinks, also in folders named by values."""
