"""The systems under comparison, each running the same workloads on the same files."""
