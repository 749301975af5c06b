"""The runner for pipelines of Apache Beam's own SDK: `--runner=headrace.runners.beam.HeadraceRunner`.

The runner translates Beam's graph into a pipeline of `headrace`, which the local runner or Spark then runs. It needs
the package `apache-beam`; nothing else of Headrace does.
"""

from headrace.runners.beam.native import Native
from headrace.runners.beam.runner import HeadraceRunner

__all__ = ["HeadraceRunner", "Native"]
