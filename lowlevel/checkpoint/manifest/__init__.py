"""What a commit says: everything that is true of an epoch."""
