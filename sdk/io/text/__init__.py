"""Formats made of lines: text, CSV and JSON."""
