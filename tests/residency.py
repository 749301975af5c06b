"""Whether tasks stay in tests that do not say so: HEADRACE_TASK_IDLE_SECONDS, 0 for a Spark job for each epoch.

The programs that tests start as processes of their own are modules of this package, so it holds for them, too.
"""

from __future__ import annotations

import os
from functools import partialmethod

from headrace.runners.engine.options import RunOptions

VARIABLE = "HEADRACE_TASK_IDLE_SECONDS"


def set_default(seconds: float) -> None:
    """Let options of runs that leave `task_idle_seconds` out have this value."""
    made = partialmethod(RunOptions.__init__, task_idle_seconds=seconds)
    RunOptions.__init__ = made  # type: ignore[method-assign, assignment]  # of every option object of this process


if seconds := os.environ.get(VARIABLE):
    set_default(float(seconds))
