"""The Spark jobs of a run, and the error when Spark gives one up."""
