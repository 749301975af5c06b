"""Side inputs: the contents of a collection's window, as arguments of functions that run on another collection."""
