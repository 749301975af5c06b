"""Diagrams of a program: of the pipeline as written, and of the topology that it is compiled to."""
