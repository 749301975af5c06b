"""Types of elements: what a program states of them, what follows, and whether it fits (`apache_beam.typehints`)."""
