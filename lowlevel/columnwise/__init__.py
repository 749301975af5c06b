"""Raw computations by columns: all keys of a bundle in one call, over arrays instead of records."""
