"""Which kind of cluster a session is on."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.runners.spark.cluster.classic import Classic
from headrace.runners.spark.cluster.cluster import Cluster
from headrace.runners.spark.cluster.connect import Connect


def cluster_of(session: SparkSession) -> Cluster:
    """Return the cluster of a session."""
    return Connect(session) if is_connect(session) else Classic(session)


def is_connect(session: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect. Its classes need packages that may not be installed."""
    return type(session).__module__.startswith("pyspark.sql.connect")
