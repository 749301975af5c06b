"""Tables that have versions, as input: all files of one version, then what each later version adds or changes."""
