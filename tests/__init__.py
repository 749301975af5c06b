"""The tests. Every process that runs a module of theirs heeds HEADRACE_TASK_IDLE_SECONDS (`tests.residency`)."""

import os
from importlib import import_module

if os.environ.get("HEADRACE_TASK_IDLE_SECONDS"):
    import_module("tests.residency")
