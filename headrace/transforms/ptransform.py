"""Exports, under the module name of Beam, the base class of transforms."""

from headrace.sdk.graph.ptransform import PTransform, ptransform_fn
from headrace.sdk.model.labels import label_of

__all__ = ["PTransform", "label_from_callable", "ptransform_fn"]

label_from_callable = label_of
