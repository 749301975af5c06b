"""The page of a run: what a pipeline does while it runs, and what its checkpoint knows of it, in a browser.

`headrace ui CHECKPOINT…` serves it for checkpoints, `headrace run --ui=PORT` for a run, and `PageReporter` in Python.
"""

from headrace.ui.server import PageReporter

__all__ = ["PageReporter"]
