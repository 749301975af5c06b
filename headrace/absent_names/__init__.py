"""Names of Beam that Headrace does not have: they can be imported, and say what to use instead when they are used."""
