"""What: splittable DoFns as work items: initial splitting, and a keyed computation that processes and resumes them."""
