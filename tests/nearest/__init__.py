"""Which tests to run, and where to add one, for a module of the product (`./dev test-for`)."""
