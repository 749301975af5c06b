"""The shuffle: takes productions from a stream to the key intervals of its subscribers."""
