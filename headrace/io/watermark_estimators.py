"""Exports, under the module name of Beam, watermark estimators."""

from headrace.sdk.splittable.watermark_estimators import (
    ManualWatermarkEstimator,
    MonotonicWatermarkEstimator,
    WalltimeWatermarkEstimator,
)

__all__ = ["ManualWatermarkEstimator", "MonotonicWatermarkEstimator", "WalltimeWatermarkEstimator"]
