"""Avro files as sources and sinks."""
