"""The local runner, which runs topologies in memory, in one thread, in an order that tests can choose."""

from headrace.runners.engine.clock import ManualClock
from headrace.runners.local.executor import Crash, Scheduler
from headrace.runners.local.runner import LocalRunner

__all__ = ["Crash", "LocalRunner", "ManualClock", "Scheduler"]
