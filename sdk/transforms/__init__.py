"""What is computed: the transforms of a pipeline, one family a module (`headrace.transforms` is the way in)."""
