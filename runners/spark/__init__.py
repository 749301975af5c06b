"""The runner on Apache Spark, which runs each epoch as one job and ends it with one atomic commit."""

from headrace.runners.spark.dataframe.sink import WriteToSpark
from headrace.runners.spark.runner import SparkRunner

__all__ = ["SparkRunner", "WriteToSpark"]
