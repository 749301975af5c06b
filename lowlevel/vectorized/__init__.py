"""Column computations: user code that processes all keys of a bundle in one call, as arrays instead of records."""
