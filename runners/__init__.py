"""What executes a topology: in memory for tests, or on Apache Spark."""
