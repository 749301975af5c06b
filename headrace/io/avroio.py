"""Exports, under the module name of Beam, sources and sinks of Avro files."""

from headrace.sdk.io.avro.avro_sink import WriteToAvro
from headrace.sdk.io.avro.avro_source import ReadAllFromAvro, ReadFromAvro

__all__ = ["ReadAllFromAvro", "ReadFromAvro", "WriteToAvro"]
