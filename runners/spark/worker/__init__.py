"""Objects of Spark's Python worker processes that live from task to task."""
