"""Elements with named fields as columns of Arrow: their types, and one schema for all rows of a run."""
