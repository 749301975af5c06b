"""What: elements as text (`apache_beam.transforms.util.ToString`)."""

from __future__ import annotations

from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.element import Map

Transform = PTransform[PCollection[object], PCollection[object]]


class ToString:
    """Transforms that make text of elements.

    >>> ToString.Element().label, ToString.Iterables().label
    ('ElementToString', 'IterablesToString')
    """

    @staticmethod
    def Element() -> Transform:
        """Each element's `str`."""
        return "ElementToString" >> Map(str)

    @staticmethod
    def Iterables(delimiter: str | None = None) -> Transform:
        """The items of each element with the delimiter (a comma if none is given) between them."""
        between = "," if delimiter is None else delimiter
        return "IterablesToString" >> Map(lambda items: between.join(map(str, items)))

    @staticmethod
    def Kvs(delimiter: str | None = None) -> Transform:
        """Key and value of each pair; the same as `Iterables`."""
        return ToString.Iterables(delimiter)
