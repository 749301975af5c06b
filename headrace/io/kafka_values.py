"""Exports formats of Kafka's keys and values: JSON and Avro, alone or with a schema registry."""

from headrace.sdk.io.kafka.value_formats import RegistryError, ValueFormat
from headrace.sdk.io.kafka.value_formats import avro_format as avro
from headrace.sdk.io.kafka.value_formats import json_format as json

__all__ = ["RegistryError", "ValueFormat", "avro", "json"]
