"""A pipeline over Spark Connect whose session lets no setting be changed: takes PLACE, prints what it finds.

With the argument `artifacts` it takes no files for the executors either.
"""

from __future__ import annotations

import json
import logging
import sys

from pyspark.sql import SparkSession

from tests.spark.client.pipelines import refused, windows
from tests.spark.refusing import refusing


def main(place: str, *artifacts: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    session = SparkSession.builder.getOrCreate()
    sums: list[object] = []
    with refusing(session, lambda name: True, bool(artifacts)) as names:
        error = refused(lambda: sums.append(windows(place, "--task_idle_seconds=0", "--no_one_task_epochs")))
    print(json.dumps({"sums": sums, "refused": len(names), "error": error}))


if __name__ == "__main__":
    main(*sys.argv[1:])
