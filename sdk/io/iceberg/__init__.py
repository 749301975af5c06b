"""Tables of Apache Iceberg, by the package pyiceberg."""
