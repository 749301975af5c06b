"""Programs with the differentially private aggregations of PipelineDP; so little noise that results can be rounded."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import pipeline_dp
import pytest
from conftest import Record
from pipeline_dp import private_beam

VISITS = [(user, place, float(user % 4)) for user in range(60) for place in range(user % 5 + 1)]
AMPLE = 1e9


def _extractors() -> pipeline_dp.DataExtractors:
    return pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda visit: visit[0],
        partition_extractor=lambda visit: visit[1],
        value_extractor=lambda visit: visit[2],
    )


@pytest.mark.parametrize("public", [None, [0, 1, 2, 99]])
def test_engine(public: list[int] | None, record: Record) -> None:
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=AMPLE, total_delta=1e-2)
    metrics = pipeline_dp.Metrics
    parameters = pipeline_dp.AggregateParams(
        metrics=[metrics.COUNT, metrics.SUM, metrics.MEAN, metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=5,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=5,
    )
    with beam.Pipeline() as pipeline:
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.BeamBackend())
        visits = pipeline | beam.Create(VISITS)
        result = engine.aggregate(visits, parameters, _extractors(), public)
        budget.compute_budgets()
        record(
            "totals",
            result
            | beam.MapTuple(
                lambda key, row: (key, {name: round(value, 2) + 0.0 for name, value in row._asdict().items()})
            ),
        )


def test_selected_partitions(record: Record) -> None:
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=AMPLE, total_delta=1e-2)
    with beam.Pipeline() as pipeline:
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.BeamBackend())
        parameters = pipeline_dp.SelectPartitionsParams(max_partitions_contributed=5)
        result = engine.select_partitions(pipeline | beam.Create(VISITS), parameters, _extractors())
        budget.compute_budgets()
        record("places", result)


@pytest.mark.parametrize(
    "aggregation",
    [
        lambda: private_beam.Sum(
            pipeline_dp.SumParams(
                max_partitions_contributed=5,
                max_contributions_per_partition=1,
                min_value=0,
                max_value=5,
                partition_extractor=lambda visit: visit[1],
                value_extractor=lambda visit: visit[2],
            )
        ),
        lambda: private_beam.Count(
            pipeline_dp.CountParams(
                noise_kind=pipeline_dp.NoiseKind.LAPLACE,
                max_partitions_contributed=5,
                max_contributions_per_partition=1,
                partition_extractor=lambda visit: visit[1],
            )
        ),
        lambda: private_beam.PrivacyIdCount(
            pipeline_dp.PrivacyIdCountParams(
                noise_kind=pipeline_dp.NoiseKind.LAPLACE,
                max_partitions_contributed=5,
                partition_extractor=lambda visit: visit[1],
            )
        ),
    ],
    ids=["sum", "count", "ids"],
)
def test_private_collections(aggregation: Callable[[], beam.PTransform], record: Record) -> None:
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=AMPLE, total_delta=1e-2)
    with beam.Pipeline() as pipeline:
        private = (
            pipeline
            | beam.Create(VISITS)
            | private_beam.MakePrivate(budget, privacy_id_extractor=lambda visit: visit[0])
        )
        result = private | private_beam.Map(lambda visit: visit) | aggregation()
        budget.compute_budgets()
        record("result", result | beam.MapTuple(lambda key, value: (key, round(value, 2) + 0.0)))
