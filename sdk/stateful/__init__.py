"""What: state and timers that a `DoFn` keeps for each key and window (`apache_beam.transforms.userstate`)."""
