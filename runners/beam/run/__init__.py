"""A run of a pipeline as users of Beam see it: options, result, metrics, errors."""
