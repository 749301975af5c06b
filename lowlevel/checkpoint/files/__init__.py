"""Files with committed state: delta files and snapshots."""
