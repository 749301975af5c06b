"""Reading and writing in Beam's pipelines: bounded sources, created values, files."""
