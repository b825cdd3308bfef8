"""Files and arguments made to get out, to hang, to flood or to run something."""

from __future__ import annotations

import gzip
import io
import json
import os
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from praval_tools import Agent
from test_data import done, size_of

from praval_tools_data import plugin
from praval_tools_data.protocol import Problem

Make = Callable[..., Agent]
Refused = Callable[..., str]

ODD = [
    "*",
    "^.*$",
    "$x^2$",
    "_hidden",
    "=1+1",
    "a\0b",
    "a\nb",
    "",
    " ",
    "\u202egnp",
    "{}",
    "%s",
    "a" * 5_000,
    "$\\frac{",
]
"""Names that mean something to somebody."""


class TestPaths:
    @pytest.mark.parametrize(
        "path", ["home/../secret.csv", "/etc/passwd", "home/link.csv", "home/pipe.csv", "home/out/secret.csv"]
    )
    @pytest.mark.parametrize("tool", ["data_read", "data_describe", "data_aggregate", "data_plot"])
    def test_that_lead_out(self, home: Path, refused: Refused, tool: str, path: str) -> None:
        """Files are opened as `praval-tools-files` opens them."""
        (home / "link.csv").symlink_to("../secret.csv")
        (home / "out").symlink_to("..")
        os.mkfifo(home / "pipe.csv")
        more: dict[str, Any] = {
            "data_aggregate": {"aggregations": [{"function": "count"}]},
            "data_plot": {"output": "home/a.png", "kind": "histogram", "y": ["secret"]},
        }.get(tool, {})

        refused("PathRefusedError", tool, path=path, format="csv", **more)

    @pytest.mark.parametrize(
        "output", ["home/../a.png", "/tmp/a.png", "home/out/a.png", "home/link.png", "home/none/a.png"]
    )
    def test_of_pictures(self, home: Path, ann: Agent, output: str) -> None:
        """Pictures are written as `praval-tools-files` writes, before anything is drawn."""
        (home / "out").symlink_to("..")
        (home / "link.png").symlink_to("../a.png")
        arguments = {"path": "home/sales.csv", "output": output, "kind": "histogram", "y": ["amount"]}

        with pytest.raises(ValueError, match=r"refused|link|nothing"):
            ann.call("data_plot", **arguments)

        assert {"home", "secret.csv"} == set(os.listdir(home.parent))


class TestCsv:
    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"a,b\n1,2,3\n", "more fields"),
            (b"a,b\n1,\xff\n", "UTF-8 text .byte 0xff"),
            ("a,b\n1,2\n".encode("utf-16"), "UTF-8"),
            ("a,é".encode()[:-1], "UTF-8"),
            (gzip.compress(b"a,b\n" + b"1,2\n" * 1_000_000, mtime=0), "not compressed|UTF-8"),
            (b"", "empty"),
            (b'a,b\n1,"never closed\n2,3\n', "could not parse"),
            (b",".join(b"c%d" % n for n in range(200)) + b"\n", "200 columns"),
            (b"," * 1_000_000 + b"\n", "columns"),
            (b"a\n" + b"1\n" * 200_000, "more than 100000 rows"),
        ],
        ids=["ragged", "value", "utf16", "name", "gzip", "empty", "quote", "wide", "wider", "long"],
    )
    def test_malformed(self, data: bytes, said: str) -> None:
        """What is wrong is said in one line."""
        with pytest.raises(Problem, match=said) as caught:
            done(data)
        assert "\n" not in caught.value.problem

    def test_what_looks_like_a_formula(self) -> None:
        """It is text, as are commands and templates."""
        evil = ["=1+1", "@SUM(A1)", '=cmd|"/C calc"!A0', "{{7*7}}", "a\nb", "\0"]
        data = b"v\n" + b"".join(b'"' + one.replace('"', '""').encode() + b'"\n' for one in evil)
        assert [[one] for one in evil] == done(data)["rows"]

    def test_missing_values(self) -> None:
        """A row that is too short has empty values at its end."""
        assert [[1, 2], [3, None]] == done(b"a,b\n1,2\n3\n")["rows"]

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(st.binary(max_size=300), st.sampled_from(["csv", "json", "jsonl", "parquet"]))
    def test_any_bytes(self, data: bytes, format: str) -> None:
        """Whatever a file holds, the answer is JSON or an error in words."""
        for do in ("read", "describe"):
            try:
                json.dumps(done(data, do, format), allow_nan=False)
            except Problem as problem:
                assert problem.kind in ("format", "limit", "column")

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(st.integers(0, 400), st.integers(0, 255))
    def test_a_damaged_parquet_file(self, at: int, value: int) -> None:
        """One wrong byte anywhere gives an answer or an error in words."""
        out = io.BytesIO()
        pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]}).write_parquet(out)
        data = bytearray(out.getvalue())
        data[at % len(data)] = value
        try:
            done(bytes(data), "describe", "parquet")
        except Problem as problem:
            assert problem.kind in ("format", "limit", "column")


class TestBombs:
    def test_a_large_file(self, make: Make, home: Path, refused: Refused) -> None:
        """The size is looked at before anything is read."""
        with (home / "huge.csv").open("wb") as file:
            file.truncate(2**40)
        assert f"{2**40} bytes" in refused("DataLimitError", "data_read", path="home/huge.csv")

    def test_parquet_with_many_rows(self, make: Make, home: Path, refused: Refused) -> None:
        """A small file that says how many rows it unpacks to is refused before it is unpacked."""
        pl.DataFrame({"a": pl.zeros(50_000_000, pl.Int8, eager=True)}).write_parquet(home / "bomb.parquet")
        assert (home / "bomb.parquet").stat().st_size < 200_000
        assert "50000000 rows" in refused("DataLimitError", "data_read", path="home/bomb.parquet")

    def test_parquet_with_large_values(self, make: Make, home: Path, refused: Refused) -> None:
        """One that unpacks to more than the memory allows ends its process, and the call says so."""
        zeros = pl.zeros(4_000_000, pl.Int64, eager=True)
        pl.DataFrame([zeros.alias(f"c{n}") for n in range(60)]).write_parquet(home / "bomb.parquet")
        assert (home / "bomb.parquet").stat().st_size < 4_000_000

        assert "memory" in refused("DataLimitError", "data_read", make(max_memory_mb=1_024), path="home/bomb.parquet")

    def test_time(self, make: Make, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
        """What takes too long is killed."""
        monkeypatch.setattr(plugin, "GRACE_SECONDS", 0.0)
        assert "stopped" in refused("DataLimitError", "data_read", make(timeout=0.01), path="home/sales.csv")

    @pytest.mark.parametrize(
        "data",
        [b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000],
        ids=["arrays", "objects"],
    )
    @pytest.mark.parametrize("format", ["json", "jsonl"])
    def test_deep_json(self, make: Make, home: Path, format: str, data: bytes) -> None:
        """JSON nested without end is refused; if the reader falls over it, it falls alone."""
        (home / "deep.json").write_bytes(data)
        with pytest.raises(ValueError, match=r"json|signal|nested"):
            make().call("data_read", path="home/deep.json", format=format)

    @pytest.mark.parametrize("start", [b"", b"\n", b"\r\n\n", b"\xef\xbb\xbf"])
    def test_wide_rows_of_csv(self, start: bytes) -> None:
        """A first line of very many names is refused before it is read, whatever stands before it."""
        with pytest.raises(Problem, match="first line"):
            done(start + b",".join(b"%d" % n for n in range(10_000)) + b"\n")

    def test_wide_rows_of_json(self) -> None:
        """Objects with ever new names make columns, which are counted."""
        with pytest.raises(Problem, match="columns"):
            done(json.dumps([{f"k{n}": 1} for n in range(500)]).encode(), format="json")


class TestPlaces:
    """What plots find around them: folders of agents, folders that nobody may write."""

    ARGUMENTS = {"path": "home/sales.csv", "kind": "line", "x": "day", "y": ["amount"]}

    def test_settings_in_the_working_folder(self, ann: Agent, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file of matplotlib's settings that an agent may have written is not read: it could have LaTeX run."""
        (home / "matplotlibrc").write_text("text.usetex: True\n")
        monkeypatch.chdir(home)

        assert 3 == ann.call("data_plot", output="home/a.png", **self.ARGUMENTS).points

    def test_settings_of_the_user(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nor do settings from elsewhere change a plot."""
        import matplotlib

        monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)

        messages = done((home / "sales.csv").read_bytes(), "plot", kind="line", x="day", y=["amount"])
        assert 3 == messages["points"]

    def test_nothing_is_left(self, ann: Agent, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the home folder cannot be written, matplotlib makes a folder; it is gone after the call."""
        rest = tmp_path / "rest"
        rest.mkdir()
        monkeypatch.setenv("TMPDIR", str(rest))
        monkeypatch.delenv("MPLCONFIGDIR", raising=False)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(name, "/proc/none")

        ann.call("data_plot", output="home/a.png", **self.ARGUMENTS)
        assert [] == os.listdir(rest)


class TestFarTimes:
    """Files hold dates and durations that Python has no value for."""

    FAR = [
        pl.Series("x", [2**31 - 1, 0], dtype=pl.Int32).cast(pl.Date),
        pl.Series("x", [2**63 - 1, 0]).cast(pl.Datetime("ms")),
        pl.Series("x", [2**63 - 1, 0]).cast(pl.Duration("ms")),
    ]

    @pytest.mark.parametrize("series", FAR, ids=["date", "datetime", "duration"])
    @pytest.mark.parametrize("do", ["read", "describe", "aggregate", "plot"])
    def test_are_reported_in_words(self, series: pl.Series, do: str) -> None:
        """Such a value gives an error in words, or is shown."""
        out = io.BytesIO()
        pl.DataFrame({"x": series, "y": [1, 2]}).write_parquet(out)
        wanted = [{"function": "greatest", "column": "x", "name": None}]
        try:
            done(out.getvalue(), do, "parquet", aggregations=wanted, kind="line", x="x", y=["y"])
        except Problem as problem:
            assert "column" == problem.kind


class TestNames:
    @pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
    def test_of_columns(self, name: str) -> None:
        """A name is a name: it is read, described, grouped by, aggregated and plotted, and no other column is."""
        out = io.BytesIO()
        pl.DataFrame({name: [1, 2], "other": [5, 7]}).write_parquet(out)
        data, wanted = out.getvalue(), [{"function": "sum", "column": name, "name": "s"}]

        assert [[1], [2]] == done(data, format="parquet", select=[name])["rows"]
        assert 2 == len(done(data, "describe", "parquet")["columns"])
        assert [[3]] == done(data, "aggregate", "parquet", aggregations=wanted)["rows"]
        counted = done(data, "aggregate", "parquet", by=[name], aggregations=[{**wanted[0], "function": "count"}])
        assert [[1, 1], [2, 1]] == counted["rows"]
        messages = done(data, "plot", "parquet", kind="bar", x="other", y=[name, "other"], title=name[:200])
        assert (300, 200) == size_of(b64decode(messages["png"]))

    def test_of_values_in_plots(self) -> None:
        """Values along an axis and titles are not read as formulas, which could fail or take long."""
        out = io.BytesIO()
        pl.DataFrame({"k": ODD, "v": range(len(ODD))}).write_parquet(out)
        messages = done(out.getvalue(), "plot", "parquet", kind="bar", x="k", y=["v"], title="$\\sqrt[{")
        assert len(ODD) == messages["points"]

    @pytest.mark.parametrize(
        "values", [[float("inf"), 1.0], [1e308, -1e308], [float("nan")], [None, 1.0], [5e-324, 1.0]]
    )
    @pytest.mark.parametrize("kind", ["line", "bar", "scatter", "histogram"])
    def test_of_numbers_that_cannot_be_drawn(self, kind: str, values: list[Any]) -> None:
        """Extreme numbers give a picture or an error in words."""
        out = io.BytesIO()
        pl.DataFrame({"x": range(len(values)), "v": pl.Series(values, dtype=pl.Float64)}).write_parquet(out)
        try:
            done(out.getvalue(), "plot", "parquet", kind=kind, x=None if kind == "histogram" else "x", y=["v"])
        except Problem as problem:
            assert "column" == problem.kind
