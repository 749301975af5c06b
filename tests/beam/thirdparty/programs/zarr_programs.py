"""Programs with the transforms of leap_data_management_utils and of pangeo_forge_ndpyramid, on stores of Zarr."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
import xarray as xr
from conftest import Record
from pangeo_forge_recipes.patterns import CombineOp, Dimension, Index, Position

if importlib.util.find_spec("leap_data_management_utils"):
    import zarr
    from leap_data_management_utils.cmip_transforms import Preprocessor
    from leap_data_management_utils.data_management_transforms import InjectAttrs
if importlib.util.find_spec("pangeo_forge_ndpyramid"):
    from pangeo_forge_ndpyramid.transforms import StoreToPyramid


TIME = Dimension("time", CombineOp.CONCAT)


def index(day: int) -> Index:
    """The place of a day among the four."""
    return Index({TIME: Position(day - 1)})


def dataset(day: int) -> xr.Dataset:
    """Temperatures of a day on a grid, with the areas of the cells."""
    grid = np.arange(64.0).reshape(8, 8)
    coordinates = {"time": [day], "y": np.linspace(0, 70, 8), "x": np.linspace(10, 80, 8)}
    variables = {"tas": (("time", "y", "x"), grid[None] * day), "area": (("y", "x"), grid)}
    return xr.Dataset(variables, coordinates, {"variable_id": "tas", "day": day})


def test_leap_attributes(tmp_path: Path, record: Record) -> None:
    names = [f"store-{each}" for each in range(5)]
    for name in names:
        zarr.open_group(str(tmp_path / name), mode="w").attrs["old"] = name
    with beam.Pipeline() as pipeline:
        stores = pipeline | beam.Create([str(tmp_path / name) for name in names])
        stores = stores | beam.Map(zarr.storage.FSStore) | InjectAttrs({"new": [1, 2]}, add_provenance=False)
        record("paths", stores | beam.Map(lambda store: Path(store.path).name))
    for name in names:
        assert dict(zarr.open_group(str(tmp_path / name)).attrs) == {"old": name, "new": [1, 2]}


def test_leap_coordinates(record: Record) -> None:
    with beam.Pipeline() as pipeline:
        days = pipeline | beam.Create([(index(day), dataset(day)) for day in range(1, 5)]) | Preprocessor()
        record(
            "coordinates",
            days | beam.MapTuple(lambda _, each: (each.attrs["day"], sorted(each.coords), list(each.data_vars))),
        )
        totals = days | beam.MapTuple(lambda _, each: ("total", float(each["tas"].sum())))
        record("totals", totals | beam.CombinePerKey(sum))


@pytest.mark.parametrize("levels", [1, 3])
def test_pyramid(tmp_path: Path, levels: int, record_property: Callable[[str, object], None]) -> None:
    days = [(index(day), dataset(day).drop_vars("area")) for day in range(1, 5)]
    with beam.Pipeline() as pipeline:
        (
            pipeline
            | beam.Create(days)
            | StoreToPyramid(
                levels=levels,
                combine_dims=[TIME],
                store_name="pyramid",
                target_root=str(tmp_path),
                other_chunks={"time": 2},
                pixels_per_tile=8,
                epsg_code="4326",
                pyramid_method="reproject",
                pyramid_kwargs={"extra_dim": "time", "pixels_per_tile": 8},
            )
        )
    for level in range(levels):
        stored = xr.open_zarr(str(tmp_path / "pyramid" / str(level)), consolidated=False)
        assert stored.sizes["time"] == len(days)
        record_property(f"level {level}", [dict(stored.sizes), stored["tas"].fillna(-1).values.tolist()])
