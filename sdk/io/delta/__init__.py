"""Tables of Delta Lake, by the package deltalake."""
