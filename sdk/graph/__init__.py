"""A pipeline while it is built: collections, transforms, labels and checks."""
