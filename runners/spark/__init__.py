"""The runner on Apache Spark: one job and one atomic commit for each epoch."""
