"""The runner on Apache Spark, which runs each epoch as one job and ends it with one atomic commit."""

from headrace.runners.spark.dataframe.injectors import StreamError
from headrace.runners.spark.dataframe.sink import WriteToSpark
from headrace.runners.spark.errors import SparkSetupError
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.runner import SparkRunner
from headrace.runners.spark.statestore.disk_full import StateDiskError

__all__ = ["SparkJobError", "SparkRunner", "SparkSetupError", "StateDiskError", "StreamError", "WriteToSpark"]
