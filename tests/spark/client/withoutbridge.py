"""A pipeline over Spark Connect where Py4J and Spark's own code cannot be imported; takes PLACE, prints what it finds.

pyspark itself imports some of these modules where they are installed, so they are taken away.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class NoBridge(MetaPathFinder):
    """Finds none of the modules that `pyspark-client` lacks, or that only a session with a master may need."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in ("py4j", "pyspark.core", "pyspark.java_gateway", "pyspark.daemon", "pyspark.worker"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def main(place: str) -> None:
    sys.meta_path.insert(0, NoBridge())
    from tests.spark.client.pipelines import BRIDGE, windows

    sums = windows(place, "--task_idle_seconds=0")
    print(json.dumps({"sums": sums, "bridge": sorted(name for name in BRIDGE if name in sys.modules)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
