"""What the page shows, as plain values: made from the progress of a run and from the commits of a checkpoint."""
