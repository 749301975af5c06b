"""Names and types of CSV columns: inferred once, committed, and stated with pandas' arguments."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.coders.coder import PLAIN
from headrace.runners.local import LocalRunner
from headrace.sdk.io.files.pieces import MissingFileError
from tests.unit.sdk.io.sourcefiles import all_rows, write


def values(path: str, **options: object) -> list[object]:
    rows: list[object] = []
    with beam.Pipeline(LocalRunner()) as pipeline:
        source = beam.io.ReadFromCsv(path, **options)
        pipeline | source | beam.io.Write(CallSink(lambda _, its: rows.extend(its)))
    return [value for value, _ in rows]


class TestWhatWasInferredIsCommitted:
    def next(self, folder: Path, position: object = None, **options: object) -> tuple[list[object], object]:
        """The rows that a start of the program finds, and the position that it commits."""
        injector = beam.io.ReadFromCsv(f"{folder}/*.csv", continuous=True, interval=0.0, **options).injector()
        start = injector.start() if position is None else PLAIN.decode(PLAIN.encode(position))
        delivery = injector.plan(start, 1000, 1)
        rows = [row for split in delivery.splits for batch in split.read() for row in batch.values]
        return rows, delivery.position

    def test_types_stay_when_the_first_files_are_archived(self, tmp_path):
        first = write(tmp_path / "a.csv", "zip,n,at\n2134,1,2024-01-01 00:00:00Z\n")
        rows, position = self.next(tmp_path)
        assert [row.zip for row in rows] == [2134]
        Path(first).unlink()
        write(tmp_path / "b.csv", "zip,n,at\n02134,1.0,2024-01-01 00:00:00Z\n")
        with pytest.raises(ValueError, match=rf"b.csv, line 2: column 'n': .*int64: invalid value '1.0'.*{first}"):
            self.next(tmp_path, position)
        write(tmp_path / "b.csv", "zip,n,at\n02134,1,2024-01-01 00:00:00Z\n")
        rows, position = self.next(tmp_path, position)
        assert [row.zip for row in rows] == [2134]

    def test_a_restart_on_an_empty_folder(self, tmp_path):
        write(tmp_path / "a.csv", "zip,n\n2134,1\n")
        _, position = self.next(tmp_path)
        (tmp_path / "a.csv").unlink()
        rows, position = self.next(tmp_path, position)
        assert not rows
        write(tmp_path / "b.csv", "zip,n\n7,8\n")
        assert self.next(tmp_path, position)[0] == [beam.Row(zip=7, n=8)]
        write(tmp_path / "c.csv", "n,zip\n7,8\n")
        with pytest.raises(ValueError, match=r"c.csv, line 1: the columns are n, zip, but zip, n in the first file"):
            self.next(tmp_path, position)

    @pytest.mark.parametrize("empty", ["zip,n\n", "zip,n", "zip,n\n\n"], ids=["header", "no end of line", "blank"])
    def test_a_file_without_records_shows_no_types(self, tmp_path, empty):
        """An export of an idle hour is first: all columns were text from then on."""
        write(tmp_path / "a.csv", empty)
        rows, position = self.next(tmp_path)
        assert not rows
        write(tmp_path / "b.csv", empty)
        write(tmp_path / "c.csv", "zip,n\n7,8.5\n")
        rows, position = self.next(tmp_path, position)
        assert rows == [beam.Row(zip=7, n=8.5)]
        write(tmp_path / "d.csv", "zip,n\n02134,x\n")
        with pytest.raises(ValueError, match=r"d.csv, line 2: column 'n': .*double: invalid value 'x'.*c.csv"):
            self.next(tmp_path, position)
        assert values(f"{tmp_path}/[abc].csv") == [beam.Row(zip=7, n=8.5)]
        source = beam.io.ReadFromCsv(f"{tmp_path}/[abc].csv")
        assert str(source.arrow_schema()) == "zip: int64\nn: double"
        assert beam.io.ReadFromCsv(f"{tmp_path}/[ab].csv").arrow_schema() is None
        assert values(f"{tmp_path}/[ab].csv") == []

    def test_a_file_without_records_has_its_columns_compared(self, tmp_path):
        write(tmp_path / "a.csv", "zip,m\n")
        write(tmp_path / "b.csv", "zip,n\n7,8\n")
        with pytest.raises(ValueError, match=r"a.csv, line 1: the columns are zip, m, but zip, n in the first file"):
            values(f"{tmp_path}/*.csv")

    def test_types_that_are_stated_need_no_records(self, tmp_path):
        write(tmp_path / "a.csv", "zip,n\n")
        _, position = self.next(tmp_path, dtype={"zip": str, "n": int})
        write(tmp_path / "b.csv", "zip,n\n02134,8\n")
        assert self.next(tmp_path, position, dtype={"zip": str, "n": int})[0] == [beam.Row(zip="02134", n=8)]

    def test_a_file_that_is_gone_shows_nothing(self, tmp_path):
        write(tmp_path / "a.csv", "zip,n\na,b\n")
        write(tmp_path / "b.csv", "zip,n\n7,8\n")
        injector = beam.io.ReadFromCsv(f"{tmp_path}/*.csv", allow_missing=True).injector()
        start = injector.start()
        (tmp_path / "a.csv").unlink()
        delivery = injector.plan(start, 1000, 1)
        rows = [row for split in delivery.splits for batch in split.read() for row in batch.values]
        assert rows == [beam.Row(zip=7, n=8)]
        (tmp_path / "b.csv").unlink()
        assert not injector.plan(start, 1000, 1).splits
        with pytest.raises(MissingFileError, match=r"a.csv is gone"):
            beam.io.ReadFromCsv(f"{tmp_path}/*.csv", validate=False).injector().plan(start, 1000, 1)

    def test_a_first_start_on_an_empty_folder_waits(self, tmp_path):
        rows, position = self.next(tmp_path)
        assert not rows
        write(tmp_path / "b.csv", "zip,n\n7,8\n")
        assert self.next(tmp_path, position)[0] == [beam.Row(zip=7, n=8)]

    def test_what_the_program_states_now_counts(self, tmp_path):
        write(tmp_path / "a.csv", "zip,n\n2134,1\n")
        _, position = self.next(tmp_path)
        write(tmp_path / "b.csv", "zip,n\n02134,1\n")
        assert self.next(tmp_path, position, dtype={"zip": str})[0] == [beam.Row(zip="02134", n=1)]

    def test_a_bounded_run_goes_on_with_them_too(self, tmp_path):
        for name, text in {"a": "n\n1\n", "b": "n\n2\n"}.items():
            write(tmp_path / f"{name}.csv", text)
        injector = beam.io.ReadFromCsv(f"{tmp_path}/*.csv").injector()
        position = injector.plan(injector.start(), 1, 1).position
        (tmp_path / "a.csv").unlink()
        again = beam.io.ReadFromCsv(f"{tmp_path}/*.csv", validate=False).injector()
        delivery = again.plan(PLAIN.decode(PLAIN.encode(position)), 10, 1)
        assert [row for split in delivery.splits for batch in split.read() for row in batch.values] == [beam.Row(n=2)]


class TestHeaders:
    def test_names_that_are_also_in_the_file_are_no_record(self, tmp_path):
        path = write(tmp_path / "a.csv", "a,b\n1,2\n")
        with pytest.raises(ValueError, match="line 1: the names a, b themselves, which would become a record"):
            values(path, names=["a", "b"])
        assert values(path, names=["x", "y"], header=0) == [beam.Row(x=1, y=2)]
        assert values(write(tmp_path / "b.csv", "1,2\n"), names=["x", "y"]) == [beam.Row(x=1, y=2)]
        assert values(path, header=0) == values(path) == [beam.Row(a=1, b=2)]

    def test_lines_before_the_header(self, tmp_path):
        path = write(tmp_path / "a.csv", "made today\n\na,b\n1,2\n")
        assert values(path, skiprows=2) == [beam.Row(a=1, b=2)]
        write(tmp_path / "b.csv", "made today\n\nb,a\n1,2\n")
        with pytest.raises(Exception, match=r"b.csv, line 3: the columns are b, a, but a, b in the first file"):
            values(f"{tmp_path}/*.csv", skiprows=2)

    def test_what_does_not_go_together(self, tmp_path):
        path = write(tmp_path / "a.csv", "a,b\n1,2\n")
        for options, message in [
            ({"header": 3}, "header is 3; give 0 if the first line has names"),
            ({"header": None}, "no line has the names of the columns; give names"),
        ]:
            with pytest.raises(ValueError, match=message):
                beam.io.ReadFromCsv(path, **options)
        with pytest.raises(TypeError, match="skiprows is a number of lines"):
            beam.io.ReadFromCsv(path, skiprows=[1])


class TestArgumentsOfPandas:
    @pytest.mark.parametrize("dtype", [str, "str", "string", object, {"a": str, "b": "object"}])
    def test_text(self, tmp_path, dtype):
        path = write(tmp_path / "a.csv", "a,b\n02134,1.50\n")
        assert values(path, dtype=dtype) == [beam.Row(a="02134", b="1.50")]

    def test_numbers(self, tmp_path):
        path = write(tmp_path / "a.csv", "a,b\n1,2\n")
        ((row, _),) = all_rows(beam.io.ReadFromCsv(path, dtype={"a": float, "b": "Int64"}))
        assert (row, type(row.a), type(row.b)) == (beam.Row(a=1.0, b=2), float, int)

    def test_a_delimiter(self, tmp_path):
        assert values(write(tmp_path / "a.csv", "a;b\n1;2\n"), delimiter=";") == [beam.Row(a=1, b=2)]

    def test_a_type_that_is_none(self, tmp_path):
        path = write(tmp_path / "a.csv", "a\n1\n")
        with pytest.raises(ValueError, match=r"dtype of column 'a' is <class 'list'>; use the name of an Arrow type"):
            beam.io.ReadFromCsv(path, dtype={"a": list})
        with pytest.raises(ValueError, match="dtype is 'whole'; use the name of an Arrow type"):
            beam.io.ReadFromCsv(path, dtype="whole")

    @pytest.mark.parametrize("name", ["comment", "parse_dates", "escapechar", "index_col", "filename_column"])
    def test_others_say_what_to_do_instead(self, tmp_path, name):
        path = write(tmp_path / "a.csv", "a\n1\n")
        with pytest.raises(TypeError, match=f"ReadFromCsv has no {name}: [a-z]"):
            beam.io.ReadFromCsv(path, **{name: "x"})


MONEY = pa.decimal128(12, 2)


class TestStatedTypes:
    @pytest.mark.parametrize("stated", [MONEY, "decimal128(12, 2)", "decimal128(12,2)"])
    def test_money_stays_exact(self, tmp_path, stated):
        path = write(tmp_path / "a.csv", "shop,amount\nnyc,0.10\nnyc,0.2\nsfo,\n")
        rows = values(path, dtype={"amount": stated})
        assert [row.amount for row in rows] == [Decimal("0.10"), Decimal("0.20"), None]
        assert beam.io.ReadFromCsv(path, dtype={"amount": stated}).arrow_schema().field("amount").type == MONEY

    def test_one_type_for_all_columns(self, tmp_path):
        path = write(tmp_path / "a.csv", "a,b\n0.10,1\n")
        assert values(path, dtype=MONEY) == [beam.Row(a=Decimal("0.10"), b=Decimal("1.00"))]

    def test_digits_that_do_not_fit_are_refused(self, tmp_path):
        path = write(tmp_path / "a.csv", "amount\n0.10\n0.125\n")
        with pytest.raises(ValueError, match=r"a.csv, line 3: column 'amount': .*data loss"):
            values(path, dtype={"amount": MONEY})

    def test_a_restart_goes_on_with_them(self, tmp_path):
        write(tmp_path / "a.csv", "amount\n0.10\n")
        again = TestWhatWasInferredIsCommitted()
        _, position = again.next(tmp_path, dtype={"amount": MONEY})
        write(tmp_path / "b.csv", "amount\n0.2\n")
        assert again.next(tmp_path, position, dtype={"amount": MONEY})[0] == [beam.Row(amount=Decimal("0.20"))]

    @pytest.mark.parametrize(
        ("stated", "text", "value"),
        [
            (date, "2026-01-05", date(2026, 1, 5)),
            (datetime, "2026-01-05 10:00:00", datetime(2026, 1, 5, 10)),
            ("time64[us]", "10:30:00", time(10, 30)),
            (pa.binary(), "x", b"x"),
        ],
    )
    def test_dates_and_times(self, tmp_path, stated, text, value):
        assert values(write(tmp_path / "a.csv", f"at\n{text}\n"), dtype={"at": stated}) == [beam.Row(at=value)]

    @pytest.mark.parametrize("stated", [Decimal, "decimal128", pa.list_(pa.int64()), 5, "decimal128(99, 2)"])
    def test_what_no_field_can_be_is_refused(self, stated):
        with pytest.raises(ValueError, match=r"dtype of column 'amount' is .*; use the name of an Arrow type"):
            beam.io.ReadFromCsv("*.csv", dtype={"amount": stated}, validate=False)


class TestLongNumbers:
    """Arrow takes whole numbers of more than 64 bits for fractions, which rounds the last digits of long ids."""

    @pytest.mark.parametrize(
        ("fields", "found"),
        [
            (["18446744073709551615", "1", "NA"], [2**64 - 1, 1, None]),
            ([" 18446744073709551615"], [2**64 - 1]),
            (["99999999999999999999999", "007", ""], ["99999999999999999999999", "007", ""]),
            (["-9223372036854775809"], ["-9223372036854775809"]),
            (["+18446744073709551615"], ["+18446744073709551615"]),
            (["9223372036854775807"], [2**63 - 1]),
            (["18446744073709551615", "1.5"], [2.0**64, 1.5]),
            (["1e3", "2"], [1000.0, 2.0]),
            (["NaN", "2"], [None, 2]),
        ],
    )
    def test_they_keep_their_digits(self, tmp_path, fields, found):
        lines = "".join(f"{field},x\n" for field in fields)
        rows = values(write(tmp_path / "a.csv", f"id,b\n{lines}"))
        assert [row.id for row in rows] == found
        assert all(type(row.id) is type(each) for row, each in zip(rows, found, strict=True))

    def test_a_stated_type_counts(self, tmp_path):
        path = write(tmp_path / "a.csv", "id\n99999999999999999999999\n-\n")
        assert values(path, dtype=float, na_values=["-"]) == [beam.Row(id=1e23), beam.Row(id=None)]
        assert [row.id for row in values(path, na_values=["-"])] == ["99999999999999999999999", None]


class TestFirstLines:
    """First lines behind which nothing would be found, or with other names than the file has."""

    @pytest.mark.parametrize(
        ("contents", "options", "line", "reason"),
        [
            (b"a,b\r1,2\r3,4\r", {}, 1, "its lines end with CR"),
            (b"a,b\r1,2\r3,4\r", {"names": ["x", "y"], "header": 0}, 1, "its lines end with CR"),
            (b"#\r\na,b\r1,2\r3,4\r", {"skiprows": 1}, 2, "its lines end with CR"),
            ("a\nb\nc\n".encode("utf-16"), {}, 1, "it has zero bytes, as UTF-16 has"),
            ("a\nb\nc\n".encode("utf-16-le"), {}, 1, "it has zero bytes, as UTF-16 has"),
            ("caf\xe9\n1\n".encode("latin-1"), {}, 1, "not UTF-8 text .*; give its encoding"),
        ],
    )
    def test_they_are_refused(self, tmp_path, contents, options, line, reason):
        path = write(tmp_path / "a.csv", contents)
        with pytest.raises(ValueError, match=f"a.csv, line {line}: {reason}"):
            values(path, **options)

    def test_what_is_right_is_read(self, tmp_path):
        assert values(write(tmp_path / "a.csv", 'a,"b\rc"\r\n1,2\r\n')) == [beam.Row(**{"a": 1, "b\rc": 2})]
        assert values(write(tmp_path / "b.csv", "a,b\r1,2\r"), names=["x", "y"])[1] == beam.Row(x="1", y="2")
        latin = write(tmp_path / "c.csv", "caf\xe9\n1\n".encode("latin-1"))
        assert values(latin, encoding="latin-1") == [beam.Row(café=1)]
