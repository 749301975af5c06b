"""What: conversion of elements to text (`apache_beam.transforms.util.ToString`)."""

from __future__ import annotations

from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import Map

Transform = PTransform[PCollection[object], PCollection[object]]


class ToString:
    """Transforms that turn elements into text.

    >>> ToString.Element().label, ToString.Iterables().label
    ('ElementToString', 'IterablesToString')
    """

    @staticmethod
    def Element() -> Transform:
        """Turns each element into its `str`."""
        return "ElementToString" >> Map(str)

    @staticmethod
    def Iterables(delimiter: str | None = None) -> Transform:
        """Joins the items of each element by a delimiter, which is a comma by default."""
        between = "," if delimiter is None else delimiter
        return "IterablesToString" >> Map(lambda items: between.join(map(str, items)))

    @staticmethod
    def Kvs(delimiter: str | None = None) -> Transform:
        """Joins the key and the value of each pair by a delimiter, as `Iterables` does."""
        return ToString.Iterables(delimiter)
