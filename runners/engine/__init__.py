"""The engine that all runners share: it turns a topology and its input into committed epochs."""
