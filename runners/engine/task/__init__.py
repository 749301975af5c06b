"""The tasks of an epoch, which take messages, process bundles and send messages."""
