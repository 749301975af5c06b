"""Programs with the sources and functions of geobeam: rasters and polygons, reprojected, repaired, formatted."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
import rasterio
from conftest import Record
from geobeam import fn, io
from rasterio.transform import from_origin


@pytest.fixture
def raster(tmp_path: Path) -> str:
    """A file of two bands in blocks of 16 by 16, in a projection of its own."""
    file = str(tmp_path / "raster.tif")
    profile = {"driver": "GTiff", "width": 48, "height": 32, "count": 2, "dtype": "uint8", "tiled": True}
    blocks = {"blockxsize": 16, "blockysize": 16, "crs": "EPSG:32632", "transform": from_origin(5e5, 5e6, 30, 30)}
    with rasterio.open(file, "w", **profile, **blocks) as target:
        target.write((np.arange(2 * 32 * 48).reshape(2, 32, 48) // 400).astype("uint8"))
    return file


def test_blocks(raster: str, record: Record) -> None:
    with beam.Pipeline() as pipeline:
        blocks = pipeline | beam.io.Read(io.RasterBlockSource(raster, bidx=[1, 2]))
        record("blocks", blocks | beam.Map(fn.format_rasterblock_record, band_mapping={1: "low", 2: "high"}))


def test_polygons(raster: str, record: Record) -> None:
    with beam.Pipeline() as pipeline:
        polygons = pipeline | beam.io.Read(io.RasterPolygonSource(raster, bidx=1))
        valid = polygons | beam.Map(fn.make_valid) | beam.Filter(fn.filter_invalid)
        record("polygons", valid | beam.Map(fn.format_rasterpolygon_record, band_type="int", band_column="height"))


def test_features(record: Record) -> None:
    """Not read by `GeoJSONSource`: with today's fiona it fails when it logs a coordinate system."""

    def feature(each: int) -> tuple[dict[str, str], dict[str, object]]:
        # Each third polygon crosses itself.
        crossing = [[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]] if each % 3 == 0 else [[0, 0], [1, 0], [1, 1], [0, 0]]
        ring = [[each + x, each + y] for x, y in crossing]
        return {"name": f"f{each}"}, {"type": "Polygon", "coordinates": [ring]}

    with beam.Pipeline() as pipeline:
        features = pipeline | beam.Create([feature(each) for each in range(20)])
        valid = features | beam.Map(fn.make_valid) | beam.Filter(fn.filter_invalid)
        record("features", valid | beam.Map(fn.format_record))
