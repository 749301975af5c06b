"""The runner on Apache Spark, which runs each epoch as one job and ends it with one atomic commit."""

try:
    import pyspark  # noqa: F401  # only whether there is one
except ModuleNotFoundError as error:
    if error.name != "pyspark":
        raise
    raise ImportError(
        "SparkRunner, which runs each pipeline that names no other runner, needs PySpark, which this Python does not "
        "have: pip install 'headrace[spark]'; on a platform that has its own Spark (Databricks, EMR, a cluster) start "
        "the program with the platform's Python; to run in memory give --runner=LocalRunner, or set "
        "HEADRACE_RUNNER=local"
    ) from error

from headrace.runners.spark.dataframe.injectors import StreamError
from headrace.runners.spark.dataframe.sink import WriteToSpark
from headrace.runners.spark.errors import SparkSetupError
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.runner import SparkRunner
from headrace.runners.spark.statestore.disk_full import StateDiskError

__all__ = ["SparkJobError", "SparkRunner", "SparkSetupError", "StateDiskError", "StreamError", "WriteToSpark"]
