"""Storage of a checkpoint: named objects in a local directory, in memory or in a cloud store."""
