"""The runner on Apache Spark: one job and one atomic commit for each epoch."""

from headrace.runners.spark.framesink import WriteToSpark
from headrace.runners.spark.runner import SparkRunner

__all__ = ["SparkRunner", "WriteToSpark"]
