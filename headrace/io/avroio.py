"""Exports, under the module name of Beam, sources and sinks of Avro files."""

from headrace.sdk.io.avro.avro_files import ReadAllFromAvro, ReadFromAvro, WriteToAvro

__all__ = ["ReadAllFromAvro", "ReadFromAvro", "WriteToAvro"]
