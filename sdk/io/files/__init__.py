"""What all file formats share: patterns, ranges, output files that appear exactly once."""
