"""Under the name that Beam programs import: what a transform is."""

from headrace.sdk.ptransform import PTransform, label_of, ptransform_fn

__all__ = ["PTransform", "label_from_callable", "ptransform_fn"]

label_from_callable = label_of
