"""What: state and timers of a `DoFn` for each key and window (`apache_beam.transforms.userstate`)."""
