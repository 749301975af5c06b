"""Exports, under the module name of Beam, counters, distributions and gauges of user code."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.metrics import cells, execution, metric, metricbase
from headrace.sdk.metrics.metric import Metrics, MetricsFilter

__all__ = ["Metrics", "MetricsFilter", "cells", "execution", "metric", "metricbase"]

add_absent_names(__name__)
