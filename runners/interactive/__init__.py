"""Shows elements of collections in a notebook or a shell, as `apache_beam.runners.interactive` does."""
