"""Injectors of files: which files there are, which are read, and how they are cut into pieces."""
