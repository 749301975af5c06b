"""Exports, under the module name of Beam, the source and sink of Kafka topics."""

from headrace.sdk.io.kafka.client import KafkaReadError
from headrace.sdk.io.kafka.record import KafkaRecord
from headrace.sdk.io.kafka.sink import KafkaWriteError, WriteToKafka
from headrace.sdk.io.kafka.source import ReadFromKafka

__all__ = ["KafkaReadError", "KafkaRecord", "KafkaWriteError", "ReadFromKafka", "WriteToKafka"]
