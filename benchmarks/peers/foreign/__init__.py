"""Programs for frameworks that have their own environments; each runs there and knows nothing of this one."""
