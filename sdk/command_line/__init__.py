"""Command line options: a table of all options, and checks of option names."""
