"""Looking at collections from a notebook or a shell (`apache_beam.runners.interactive`)."""
