"""What every runner shares to turn a topology and its inputs into committed epochs."""
