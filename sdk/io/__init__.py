"""Files and DataFrames: where elements come from and where they go."""
