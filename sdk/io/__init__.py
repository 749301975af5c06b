"""Sources and sinks: files, Kafka, sockets, DataFrames, generated elements."""
