"""Side-by-side measurements: ours and other systems in one run, on the same input, with equal results."""
