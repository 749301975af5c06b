"""What executes a topology, in memory or on Apache Spark, and what a program gives to any runner and gets from it."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.runners.engine.driver.background_run import Running
from headrace.runners.engine.driver.signals import StoppedError
from headrace.runners.engine.driver.topology_change import RunOverError
from headrace.runners.engine.options import EpochProgress, RunOptions, RunResult

__all__ = ["EpochProgress", "RunOptions", "RunOverError", "RunResult", "Running", "StoppedError"]

add_absent_names(__name__)
