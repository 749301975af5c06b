"""The transforms of a pipeline, by family (`headrace.transforms` is the public module)."""
