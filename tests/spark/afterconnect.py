"""A program whose server is gone at its end: `SPARK_REMOTE=sc://... python -m tests.spark.afterconnect PLACE`.

It says when its run is over, and ends when it is told to. With the argument `interrupted` it is interrupted, as by
Ctrl-C, while it asks a server that does not answer.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from pyspark.sql import SparkSession

import headrace as beam
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark.session import open_session


def main(place: str, *interrupted: str) -> None:
    if interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        SparkSession.builder.getOrCreate()
        threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
        open_session()  # It would take ten minutes.
    with beam.Pipeline("SparkRunner", PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        pipeline | beam.Create([1, 2]) | beam.Map(abs)
    print("the run is over", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
