"""The runner for pipelines of Apache Beam's own SDK: `--runner=headrace.runners.beam.HeadraceRunner`.

The runner translates Beam's graph into a pipeline of `headrace`, which the local runner or Spark then runs. It needs
the package `apache-beam`; nothing else of Headrace does.
"""

import gc
from importlib.util import find_spec

if find_spec("apache_beam") is None:
    raise ImportError("headrace.runners.beam runs pipelines of Apache Beam's SDK: pip install 'headrace[beam]'")

# With all that Beam has loaded, one collection takes a third of the time of these imports, and finds no garbage.
_collects = gc.isenabled()
gc.disable()
try:
    from headrace.runners.beam.native import Native
    from headrace.runners.beam.runner import HeadraceRunner
    from headrace.runners.beam.windowings import UntranslatableError
finally:
    if _collects:
        gc.enable()

__all__ = ["HeadraceRunner", "Native", "UntranslatableError"]
