"""The contents of a checkpoint as plain values, for `headrace inspect` and the page of a run."""
