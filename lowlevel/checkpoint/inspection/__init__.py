"""Read-only access to a checkpoint: state, timers, watermarks, injectors."""
