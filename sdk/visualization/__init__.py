"""Diagrams of programs and plots of recorded runs."""
