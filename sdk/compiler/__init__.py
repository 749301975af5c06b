"""From the graph of a pipeline to a topology."""
