"""Side inputs: whole collections, window by window, as arguments of the functions that run on another collection."""
