"""Kafka as a source and a sink, on librdkafka (`apache_beam.io.kafka`)."""
