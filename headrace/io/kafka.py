"""Exports, under the module name of Beam, the source and sink of Kafka topics, and Debezium's records there."""

from headrace.sdk.io.kafka.client import KafkaReadError
from headrace.sdk.io.kafka.debezium import FromDebezium, debezium_commit_time
from headrace.sdk.io.kafka.record import KafkaRecord
from headrace.sdk.io.kafka.sink import KafkaWriteError, WriteToKafka
from headrace.sdk.io.kafka.source import ReadFromKafka

__all__ = [
    "FromDebezium",
    "KafkaReadError",
    "KafkaRecord",
    "KafkaWriteError",
    "ReadFromKafka",
    "WriteToKafka",
    "debezium_commit_time",
]
