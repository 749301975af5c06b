"""What executes a topology: in memory for tests, or on Apache Spark."""

from headrace.absent_names.absent_modules import add_absent_names

add_absent_names(__name__)
