"""Type hints of elements: statement, inference and comparison (`apache_beam.typehints`)."""
