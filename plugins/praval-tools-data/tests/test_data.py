"""What the tools do, and what they say where they cannot."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from praval_tools import Agent, Outcome, ToolCall

from praval_tools_data import operations, plots, plugin
from praval_tools_data.errors import DataSettingsError
from praval_tools_data.protocol import Problem
from praval_tools_data.settings import DataSettings
from praval_tools_data.tables import read_table

Make = Callable[..., Agent]
Refused = Callable[..., str]

LIMITS = {
    "path": "x", "separator": ",", "file_bytes": 10_000_000, "rows": 100_000, "columns": 100, "bytes": 100_000,
    "chars": 1_000, "points": 1_000, "select": None, "offset": 0, "limit": 100, "by": [], "sort": None,
    "descending": False, "x": None, "aggregate": None, "title": "", "width": 300, "height": 200,
}  # fmt: skip


def done(data: bytes, do: str = "read", format: str = "csv", **more: Any) -> Any:
    """Work on *data* as the process of its own does, by the same code, in this one, which is there already."""
    run = plots.run if do == "plot" else operations.run
    return run({**LIMITS, "do": do, "format": format, "file": _file(data), **more})


def _file(data: bytes) -> int:
    file = os.memfd_create("data")
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def parquet(**columns: Any) -> bytes:
    """Return a Parquet file."""
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


class TestReading:
    def test_rows(self, ann: Agent) -> None:
        """Rows come with types, values as JSON, and how many there are."""
        page = ann.call("data_read", path="home/sales.csv", limit=2, offset=1)

        assert [["south", 4.5, "2026-05-02", False], ["north", None, "2026-05-03", True]] == page.rows
        assert (["String", "Float64", "Date", "Boolean"], 3, False) == (page.types, page.total_rows, page.truncated)

    @pytest.mark.parametrize(
        ("format", "data"),
        [
            ("csv", b"a,b\n1,x\n2,\n"),
            ("json", b'[{"a": 1, "b": "x"}, {"a": 2, "b": null}]'),
            ("jsonl", b'{"a": 1, "b": "x"}\n{"a": 2}\n'),
            ("parquet", parquet(a=[1, 2], b=["x", None])),
        ],
    )
    def test_formats(self, format: str, data: bytes) -> None:
        """Every format gives the same rows."""
        assert [[1, "x"], [2, None]] == done(data, format=format)["rows"]

    def test_choice_of_columns(self) -> None:
        """Columns come as asked for; one that is not there is named with near ones; none comes twice."""
        assert [[2, 1]] == done(b"a,b\n1,2\n", select=["b", "a"])["rows"]
        with pytest.raises(Problem, match="'amount'"):
            done(b"amount,b\n1,2\n", select=["amuont"])
        with pytest.raises(Problem, match="twice"):
            done(b"a,b\n1,2\n", select=["a", "a"])

    def test_limits_of_a_result(self) -> None:
        """Rows and size are limited, long values cut, and the result says so."""
        data = b"a\n" + b"x" * 50 + b"\n" + b"y\n" * 100
        few = done(data, limit=2, chars=3)
        assert ([["xxx"], ["y"]], True, 1) == (few["rows"], few["truncated"], few["cut_values"])
        assert done(data, bytes=200)["truncated"]

    def test_values_of_every_kind(self) -> None:
        """Bytes, nested values, infinity, large integers and dates come back as JSON can say them."""
        data = parquet(a=[b"\0"], b=[[1, 2]], c=[{"x": date(2026, 5, 1)}], d=[float("inf")], e=[2**64 - 1])
        assert [["AA==", [1, 2], {"x": "2026-05-01"}, "inf", str(2**64 - 1)]] == done(data, format="parquet")["rows"]

    def test_endings(self, ann: Agent, home: Path, refused: Refused) -> None:
        """The name says what a file is, unless the call does."""
        (home / "a.tsv").write_text("a\tb\n1\t2\n")
        (home / "a").write_text("a;b\n1;2\n")

        assert [[1, 2]] == ann.call("data_read", path="home/a.tsv").rows
        assert "format" in refused("DataFormatError", "data_read", path="home/a")
        assert [[1, 2]] == ann.call("data_read", path="home/a", format="csv", separator=";").rows


class TestDescribing:
    def test_columns(self, ann: Agent) -> None:
        """Each column is reported with type, empty and different values, range and mean where they apply."""
        summary = ann.call("data_describe", path="home/sales.csv")
        region, amount, day, new = summary.columns

        assert 3 == summary.rows
        assert ("String", 0, 2, "north", "south", None) == (
            region.type, region.empty, region.distinct, region.least, region.greatest, region.mean,
        )  # fmt: skip
        assert (1, 3.0, 4.5, 3.75) == (amount.empty, amount.least, amount.greatest, amount.mean)
        assert ("2026-05-01", "2026-05-03", False) == (day.least, day.greatest, new.least)

    def test_empty_and_odd_columns(self) -> None:
        """Columns without values and nested ones are reported as far as they go."""
        messages = done(parquet(a=[None, None], b=[[1], [2]], c=[float("nan"), 1.0]), "describe", "parquet")["columns"]
        assert [("a", 2), ("b", 0), ("c", 0)] == [(one["name"], one["empty"]) for one in messages]
        assert messages[1]["least"] is None

    def test_limit_of_a_result(self) -> None:
        """A description that is larger than a result may be is refused, with the way out."""
        with pytest.raises(Problem, match="max_result_bytes|are allowed") as caught:
            done(b",".join(b"c%d" % n for n in range(50)) + b"\n", "describe", bytes=1_000)
        assert "limit" == caught.value.kind


class TestAggregating:
    def test_every_function(self) -> None:
        """Each function works out what its name says."""
        functions = ["count", "sum", "mean", "median", "least", "greatest", "distinct", "first", "last", "deviation"]
        wanted = [{"function": one, "column": "v", "name": None} for one in functions]
        messages = done(b"k,v\na,1\nb,5\na,3\na,\n", "aggregate", by=["k"], aggregations=wanted)

        assert ["k", *(f"{one}_v" for one in functions)] == messages["columns"]
        assert ["a", 2, 4, 2.0, 2.0, 1, 3, 3, 1, None] == messages["rows"][0][:-1]
        assert ["b", 1, 5, 5.0, 5.0, 5, 5, 1, 5, 5, None] == messages["rows"][1]

    def test_of_all_rows(self) -> None:
        """Without columns to group by, all rows are one group; count needs no column."""
        wanted = [{"function": "count", "column": None, "name": "rows"}]
        assert [[2]] == done(b"a\n1\n2\n", "aggregate", aggregations=wanted)["rows"]

    def test_sorting_and_limit(self) -> None:
        """The result is sorted by one of its columns, cut, and says how many groups there are."""
        wanted = [{"function": "sum", "column": "v", "name": "total"}]
        more = {"by": ["k"], "aggregations": wanted, "sort": "total", "descending": True, "limit": 2}
        messages = done(b"k,v\na,1\nb,5\nc,3\n", "aggregate", **more)
        assert ([["b", 5], ["c", 3]], 3, True) == (messages["rows"], messages["groups"], messages["truncated"])

    def test_sums_do_not_overflow(self) -> None:
        """Integers are added up as numbers, not as 64 bits."""
        wanted = [{"function": "sum", "column": "v", "name": None}]
        messages = done(parquet(v=[2**62] * 4), "aggregate", "parquet", aggregations=wanted)
        assert [[str(2**64)]] == messages["rows"]

    @pytest.mark.parametrize(
        ("by", "function", "column", "name"),
        [([], "sum", "t", None), ([], "mean", None, None), (["t"], "count", None, "t"), (["x"], "count", None, None),
         (["t", "t"], "count", None, None), ([], "count", "nope", None)],
    )  # fmt: skip
    def test_what_does_not_fit(self, by: list[str], function: str, column: str | None, name: str | None) -> None:
        """Text is not added up, names are not used twice, and a column must be there."""
        with pytest.raises(Problem) as caught:
            wanted = [{"function": function, "column": column, "name": name}]
            done(b"t,n\nx,1\n", "aggregate", by=by, aggregations=wanted)
        assert "column" == caught.value.kind

    def test_there_are_no_expressions(self, ann: Agent) -> None:
        """A function that is not known is refused as an argument."""
        wanted = [{"function": "__import__('os')", "column": "amount"}]
        call = ToolCall(name="data_aggregate", arguments={"path": "home/sales.csv", "aggregations": wanted})
        assert Outcome.INVALID_ARGUMENTS is ann.execute(call).outcome


def size_of(png: bytes) -> tuple[int, int]:
    """Return width and height of a PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])  # type: ignore[return-value]


class TestPlotting:
    def test_a_picture(self, ann: Agent, home: Path, refused: Refused) -> None:
        """A new file holds a PNG of the size that was asked for; it is never replaced."""
        more = {"kind": "line", "x": "day", "y": ["amount"], "width": 400, "height": 300, "title": "Sales"}
        picture = ann.call("data_plot", path="home/sales.csv", output="home/a.png", **more)

        assert (400, 300) == size_of((home / "a.png").read_bytes()) == (picture.width, picture.height)
        assert (3, picture.bytes) == (picture.points, (home / "a.png").stat().st_size)
        refused("FileTakenError", "data_plot", path="home/sales.csv", output="home/a.png", **more)
        refused("DataFormatError", "data_plot", path="home/sales.csv", output="home/sales.csv", **more)

    @pytest.mark.parametrize("kind", ["line", "bar", "scatter", "histogram"])
    @pytest.mark.parametrize("x", ["k", "n", "d"])
    def test_kinds(self, kind: str, x: str) -> None:
        """Every kind is drawn, along text, numbers and dates, for several columns with gaps."""
        data = b"k,n,d,a,b\nx,1,2026-05-01,1,2\ny,2,2026-05-02,,3\nz,3,2026-05-03,5,1e3\n"
        from base64 import b64decode

        more = {"kind": kind, "x": None if kind == "histogram" else x, "y": ["a", "b"]}
        assert (300, 200) == size_of(b64decode(done(data, "plot", **more)["png"]))

    @pytest.mark.parametrize("kind", ["line", "bar", "scatter"])
    @pytest.mark.parametrize("unit", ["ms", "us", "ns", None])
    def test_along_times(self, kind: str, unit: Any) -> None:
        """Times of the day and durations are an axis as well."""
        dtype = pl.Duration(unit) if unit else pl.Time
        data = parquet(x=pl.Series([1_000_000_000, 2_000_000_000]).cast(dtype), y=[1, 2])
        assert 2 == done(data, "plot", "parquet", kind=kind, x="x", y=["y"])["points"]

    def test_aggregated(self) -> None:
        """One point for each value of x."""
        messages = done(b"k,v\na,1\nb,2\na,3\n", "plot", kind="bar", x="k", y=["v"], aggregate="mean")
        assert 2 == messages["points"]

    @pytest.mark.parametrize(
        ("more", "kind"),
        [({"x": None}, "column"), ({"y": ["k"]}, "column"), ({"kind": "histogram"}, "column"),
         ({"y": ["none"]}, "column"), ({"points": 1}, "limit")],
    )  # fmt: skip
    def test_what_cannot_be_drawn(self, more: dict[str, Any], kind: str) -> None:
        """Text has no height, some axes need a column, and too many points are refused with the way out."""
        with pytest.raises(Problem) as caught:
            done(b"k,v\na,1\nb,2\n", "plot", **{"kind": "line", "x": "k", "y": ["v"], **more})
        assert kind == caught.value.kind

    def test_approval(self, make: Make, home: Path) -> None:
        """The operator may have each plot approved."""
        arguments = {"path": "home/sales.csv", "output": "home/a.png", "kind": "histogram", "y": ["amount"]}
        result = make(approve_plots=True).execute(ToolCall(name="data_plot", arguments=arguments))
        assert (Outcome.APPROVAL_REQUIRED, ["sales.csv"]) == (result.outcome, os.listdir(home))

    def test_read_only_folders(self, make: Make, home: Path, refused: Refused) -> None:
        """A plot goes where the operator lets files be written."""
        reader = make(roots=[{"name": "home", "path": str(home)}])
        arguments = {"path": "home/sales.csv", "output": "home/a.png", "kind": "histogram", "y": ["amount"]}
        refused("PathRefusedError", "data_plot", reader, **arguments)


class TestSettings:
    def test_nothing_declared(self, make: Make, refused: Refused) -> None:
        """A tool says how to declare a folder, in words that can be pasted."""
        text = refused("NoRootsError", "data_describe", make(roots=[]), path="home/sales.csv")
        assert '[[plugins."praval-tools-data".settings.roots]]' in text

    @pytest.mark.parametrize(
        "wrong", [{"timeout": 0}, {"max_rows": -1}, {"max_memory_mb": 5}, {"max_rows": 1.5}, {"approve_plots": "no"}]
    )
    def test_wrong_values(self, wrong: dict[str, Any]) -> None:
        """A limit that makes no sense is an error."""
        with pytest.raises(ValueError, match="Set"):
            DataSettings(**wrong)
        assert issubclass(DataSettingsError, ValueError)

    def test_what_the_tools_say_of_themselves(self) -> None:
        """Readers are read-only; the plotter writes but destroys nothing; nobody owns or shares them."""
        for tool in plugin.praval_tools_register_tools(DataSettings()):
            messages = tool.metadata
            assert (tool.name != "data_plot", False) == (messages.read_only, bool(messages.destructive))
            assert (None, False, "data") == (messages.owned_by, messages.shared, messages.category)


def test_names_are_kept_beside_the_frame() -> None:
    """Columns are found by the name in the file, and the frame knows them by number."""
    table = read_table({**LIMITS, "format": "csv", "file": _file(b"*,^.*$\n1,2\n")})
    assert (("*", "^.*$"), ["0", "1"], [2]) == (table.names, table.frame.columns, table.get_column("^.*$").to_list())
