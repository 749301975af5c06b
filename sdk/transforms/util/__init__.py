"""Composite transforms, built from primitives (`apache_beam.transforms.util`)."""
