"""CombineFns and their accumulators (`apache_beam.transforms.combiners`)."""

from headrace.sdk.combinefns import numeric as numeric  # its import registers `sum`, `max` and others
