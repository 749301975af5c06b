"""A pipeline over Spark Connect whose session lets no setting be changed; takes PLACE, prints what it finds."""

from __future__ import annotations

import json
import logging
import sys

from pyspark.sql import SparkSession

from tests.spark.client.pipelines import windows
from tests.spark.refusing import refusing


def main(place: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    session = SparkSession.builder.getOrCreate()
    with refusing(session, lambda name: True) as refused:
        sums = windows(place, "--task_idle_seconds=0", "--no_one_task_epochs")
    print(json.dumps({"sums": sums, "refused": len(refused)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
