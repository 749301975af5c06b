"""Records, batches of them, and blocks of records for a key interval."""
