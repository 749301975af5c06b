"""What vectorized groupings keep: tables of windows, and the segments that store them."""
