"""Bytes for values of a type (`apache_beam.coders`)."""
