"""Thin clients: programs in environments that have a client of Spark Connect and no Spark (`./dev test --client`)."""
