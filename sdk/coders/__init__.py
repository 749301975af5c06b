"""Coders: the encoding of values of a type as bytes (`apache_beam.coders`)."""
