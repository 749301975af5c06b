"""Committed state in LMDB files on the host that processes an interval."""
