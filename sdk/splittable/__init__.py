"""What: splittable DoFns, which process an element in parts: restrictions, their trackers, watermark estimators."""
