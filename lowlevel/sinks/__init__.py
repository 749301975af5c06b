"""Sinks: destinations for the rows that leave a topology."""
