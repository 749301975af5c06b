"""Memory of worker processes: allocator settings, and when memory is returned to the system."""
