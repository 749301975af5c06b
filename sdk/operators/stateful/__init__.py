"""DoFns with state and timers, as keyed computations."""
