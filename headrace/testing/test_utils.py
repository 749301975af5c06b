"""Exports, under the module name of Beam, files and contents for tests."""

from headrace.sdk.testing.files import TempDir, compute_hash, create_file, delete_files, read_files_from_pattern

__all__ = ["TempDir", "compute_hash", "create_file", "delete_files", "read_files_from_pattern"]
