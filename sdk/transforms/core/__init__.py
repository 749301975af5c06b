"""Primitive transforms: the transforms that the compiler knows."""
