"""Arrow arrays: conversions, keys and encodings, without knowledge of records."""
