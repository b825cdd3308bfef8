"""The plugin that the host loads: its settings and its tools."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeAlias

import pluggy
from annotated_types import Ge, Le, MaxLen, MinLen
from attrs import asdict, frozen
from praval_tools import Tool, ToolContext, tool
from praval_tools_files.roots import Roots

from praval_tools_data.errors import DataFormatError, DataLimitError
from praval_tools_data.protocol import Answer
from praval_tools_data.results import Aggregation, ColumnName, ColumnSummary, Groups, Page, Picture, Summary
from praval_tools_data.settings import DataSettings
from praval_tools_data.worker_process import GRACE_SECONDS, run_in_worker

AnyTool: TypeAlias = Tool[..., Any]

hookimpl = pluggy.HookimplMarker("praval_tools")

PACKAGE: Final = "praval-tools-data"
_TAGS: Final = ("data", "tables")
_TIMEOUT_MARGIN: Final = 3.0
"""Seconds by which the call's time-out follows the tool's own, so that the tool's message is what is read."""
_FORMATS_BY_ENDING: Final = {
    "csv": "csv", "tsv": "csv", "json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet",
}  # fmt: skip

Format = Literal["csv", "json", "jsonl", "parquet"]
Separator = Literal[",", ";", "\t", "|"]
FilePath = Annotated[str, MinLen(1), MaxLen(4_096)]


@hookimpl
def praval_tools_settings() -> type[DataSettings]:
    """Return the class of the settings."""
    return DataSettings


@hookimpl
def praval_tools_register_tools(settings: DataSettings) -> Iterable[AnyTool]:
    """Return the tools, which read under the folders that *settings* declares."""
    made = DataTools(Roots(settings.roots, PACKAGE), settings)
    return (made.build_read_tool(), made.build_describe_tool(), made.build_aggregate_tool(), made.build_plot_tool())


@frozen
class DataTools:
    """Makes the tools for one set of folders."""

    roots: Roots
    settings: DataSettings

    def _run_request(
        self, context: ToolContext, path: str, format: Format | None, separator: Separator | None, **more: Any
    ) -> Any:
        limits, kind = self.settings, format or _guess_format(path)
        with self.roots.open_file(path) as (file, status):
            if status.st_size > limits.max_file_bytes:
                problem = f"it has {status.st_size} bytes, and {limits.max_file_bytes} are allowed"
                raise DataLimitError(path, problem, "Use a smaller file, or ask the operator to raise max_file_bytes.")
            request = {
                "path": path,
                "format": kind,
                "separator": separator or ("\t" if path.endswith(".tsv") else ","),
                "timeout": limits.timeout,
                "memory": limits.max_memory_mb,
                "file_bytes": limits.max_file_bytes,
                "rows": limits.max_rows,
                "columns": limits.max_columns,
                "bytes": limits.max_result_bytes,
                "chars": limits.max_value_chars,
                "points": limits.max_points,
                **more,
            }
            module = "praval_tools_data.plots" if more["do"] == "plot" else "praval_tools_data.operations"
            return run_in_worker(
                module, request, file, timeout=limits.timeout + GRACE_SECONDS, cancelled=lambda: context.cancelled
            )

    def _get_common_options(self) -> dict[str, Any]:
        return {
            "category": "data",
            "tags": _TAGS,
            "safety": "sandboxed",
            "open_world": False,
            "speed": "slow",
            "register": False,
            "timeout": self.settings.timeout + GRACE_SECONDS + _TIMEOUT_MARGIN,
        }

    def build_read_tool(self) -> AnyTool:
        """Return the tool that reads rows."""
        most = self.settings.max_result_rows

        @tool("data_read", read_only=True, title="Read rows", **self._get_common_options())
        def data_read(
            context: ToolContext,
            path: FilePath,
            *,
            columns: Annotated[list[ColumnName], MinLen(1)] | None = None,
            offset: Annotated[int, Ge(0), Le(2**40)] = 0,
            limit: Annotated[int, Ge(1)] = 50,
            format: Format | None = None,
            separator: Separator | None = None,
        ) -> Page:
            """
            Read rows of a CSV, JSON or Parquet file.

            Args:
                path: The file, beginning with the name of a declared folder.
                columns: Which columns; all where left out.
                offset: How many rows to leave out.
                limit: At most how many rows; the operator may allow fewer.
                format: What the file is; its ending says so where left out.
                separator: What stands between the values of a CSV file.
            """
            more = {"select": columns, "offset": offset, "limit": min(limit, most)}
            return Page(**self._run_request(context, path, format, separator, do="read", **more))

        return data_read

    def build_describe_tool(self) -> AnyTool:
        """Return the tool that describes."""

        @tool("data_describe", read_only=True, title="Describe data", **self._get_common_options())
        def data_describe(
            context: ToolContext, path: FilePath, format: Format | None = None, separator: Separator | None = None
        ) -> Summary:
            """
            Describe a CSV, JSON or Parquet file: rows, and for each column its type, empty values, range, mean.

            Args:
                path: The file, beginning with the name of a declared folder.
                format: What the file is; its ending says so where left out.
                separator: What stands between the values of a CSV file.
            """
            answer = self._run_request(context, path, format, separator, do="describe")
            return Summary(rows=answer["rows"], columns=[ColumnSummary(**item) for item in answer["columns"]])

        return data_describe

    def build_aggregate_tool(self) -> AnyTool:
        """Return the tool that aggregates."""
        most = self.settings.max_result_rows

        @tool("data_aggregate", read_only=True, title="Aggregate data", **self._get_common_options())
        def data_aggregate(
            context: ToolContext,
            path: FilePath,
            *,
            aggregations: Annotated[list[Aggregation], MinLen(1), MaxLen(100)],
            group_by: Annotated[list[ColumnName], MaxLen(20)] | None = None,
            sort: ColumnName | None = None,
            descending: bool = False,
            limit: Annotated[int, Ge(1)] = 100,
            format: Format | None = None,
            separator: Separator | None = None,
        ) -> Groups:
            """
            Group the rows of a CSV, JSON or Parquet file, and count, add up or average each group.

            Args:
                path: The file, beginning with the name of a declared folder.
                aggregations: What to work out for each group.
                group_by: The columns whose values make the groups; all rows are one group where left out.
                sort: A column of the result to sort by; in the order of the file where left out.
                descending: Whether the greatest come first.
                limit: At most how many groups; the operator may allow fewer.
                format: What the file is; its ending says so where left out.
                separator: What stands between the values of a CSV file.
            """
            more: Answer = {"by": group_by or [], "sort": sort, "descending": descending}
            more |= {"aggregations": [asdict(aggregation) for aggregation in aggregations], "limit": min(limit, most)}
            return Groups(**self._run_request(context, path, format, separator, do="aggregate", **more))

        return data_aggregate

    def build_plot_tool(self) -> AnyTool:
        """Return the tool that plots."""

        @tool(
            "data_plot",
            read_only=False,
            destructive=False,
            requires_approval=self.settings.approve_plots,
            approval_reason="It writes a new file.",
            title="Plot data",
            **self._get_common_options(),
        )
        def data_plot(
            context: ToolContext,
            path: FilePath,
            *,
            output: FilePath,
            kind: Literal["line", "bar", "scatter", "histogram"],
            y: Annotated[list[ColumnName], MinLen(1), MaxLen(8)],
            x: ColumnName | None = None,
            aggregate: Literal["count", "sum", "mean", "least", "greatest"] | None = None,
            title: Annotated[str, MaxLen(200)] = "",
            width: Annotated[int, Ge(200), Le(2_000)] = 900,
            height: Annotated[int, Ge(150), Le(2_000)] = 500,
            format: Format | None = None,
            separator: Separator | None = None,
        ) -> Picture:
            """
            Plot columns of a CSV, JSON or Parquet file to a new PNG file.

            Args:
                path: The file, beginning with the name of a declared folder.
                output: The new file, ending in .png, under a declared folder that may be written.
                kind: What to draw.
                y: The columns whose values are drawn.
                x: The column along the other axis; a histogram has none.
                aggregate: What to work out of y for each value of x, where x has values more than once.
                title: What stands above.
                width: In pixels.
                height: In pixels.
                format: What the file is; its ending says so where left out.
                separator: What stands between the values of a CSV file.
            """
            if not output.endswith(".png"):
                raise DataFormatError(output, "a picture is a PNG file", "Give it a name that ends in .png.")
            self.roots.check_new_file(output)
            more: Answer = {"kind": kind, "x": x, "y": y, "aggregate": aggregate, "title": title}
            size = {"width": width, "height": height}
            answer = self._run_request(context, path, format, separator, do="plot", **more, **size)
            data = b64decode(answer["png"])
            self.roots.write_file(output, data, overwrite=False)
            return Picture(path=output, bytes=len(data), points=answer["points"], **size)

        return data_plot


def _guess_format(path: str) -> str:
    ending = path.rpartition(".")[2].lower()
    if ending in _FORMATS_BY_ENDING:
        return _FORMATS_BY_ENDING[ending]
    raise DataFormatError(path, "its name does not say what it is", "Pass format: csv, json, jsonl or parquet.")
