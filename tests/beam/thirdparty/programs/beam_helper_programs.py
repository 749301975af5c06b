"""Programs with the transforms of beam_helper: the steps of a pipeline that a file describes."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
from beam_helper import beam_helper
from conftest import Record


def test_steps(tmp_path: Path, record: Record) -> None:
    file = tmp_path / "towns.csv"
    file.write_text("name;state\n" + "".join(f"t{each};{'ab'[each % 2]}-\n" for each in range(30)), encoding="utf-8")

    def step(kind: type[beam.PTransform], name: str, **task: object) -> beam.PTransform:
        return kind(name, {"task": task})

    read = step(
        beam_helper.ExtractFromSource,
        "Local",
        local_path=str(file),
        skip_header_lines=1,
        input_compression="auto",
    )
    split = step(beam_helper.ApplyTransform, "Split", split={"delimiter": ";"})
    named = beam_helper.ApplyFormat({"task": {"num_cols": 2, "column_names": ["name", "state"]}})
    replaced = step(
        beam_helper.ApplyTransform, "Replace", replace={"column": "state", "find_value": "-", "replace_value": ""}
    )
    kept = [
        step(
            beam_helper.ApplyTransform,
            "Filter",
            filter={"condition": condition, "column": ["state", "name"], "value": ["a", "t3"]},
        )
        for condition in ("IN", "NOT IN")
    ]
    chosen = step(
        beam_helper.ApplyTransform, "Lambda", filter={"column": "name", "lambda": "lambda row: row['name'] > 't2'"}
    )
    with beam.Pipeline() as pipeline:
        towns = pipeline | read | "split" >> split | named | "replaced" >> replaced
        record("in", towns | "in" >> kept[0])
        record("not", towns | "not in" >> kept[1])
        record("chosen", towns | "chosen" >> chosen)
