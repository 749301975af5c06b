"""One file an example; each runs as `python -m examples.NAME`."""
