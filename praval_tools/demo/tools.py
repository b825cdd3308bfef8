"""The demo's tools: plain functions with type hints, declared on a registry."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Annotated, Any

from annotated_types import Ge, MinLen
from attrs import define, field, frozen

from praval_tools.demo.effects import Effect, EffectLog
from praval_tools.demo.input_files import iter_words
from praval_tools.demo.statistics import Average, Comparison, compare_groups, compute_averages
from praval_tools.demo.table import Table
from praval_tools.names import format_count
from praval_tools.registry.decorators import tool
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.context import ToolContext
from praval_tools.tools.tool import Tool

RowFilterArgument = dict[str, list[str]] | None


@frozen(kw_only=True)
class ColumnSummary:
    """What one column holds."""

    name: str
    kind: str
    distinct: int
    empty: int


@frozen(kw_only=True)
class DataSummary:
    """What the data are."""

    name: str
    rows: int
    unit: str
    columns: list[ColumnSummary]


@frozen(kw_only=True)
class Word:
    """A word and how often it is in the text."""

    word: str
    times: int


@frozen(kw_only=True)
class NotebookEntry:
    """A finding, and who wrote it down."""

    author: str
    text: str


@frozen(kw_only=True)
class Report:
    """The answer as it was published."""

    headline: str
    findings: list[str]


@define
class Workspace:
    """What the tools work on: the data, and the effects of earlier calls, which are notes and published reports."""

    table: Table
    effects: EffectLog = field(factory=EffectLog)


def declare_data_tools(registry: ToolRegistry, workspace: Workspace) -> None:
    """Declare what the librarian owns: an overview for everybody, and the raw rows for itself."""

    @tool("describe_data", owned_by="librarian", shared=True, read_only=True, registry=registry)
    def describe_data() -> DataSummary:
        """Return how many rows the data have, and what each column holds."""
        columns = [
            ColumnSummary(
                name=column.name,
                kind=column.kind,
                distinct=len(column.distinct),
                empty=sum(1 for value in column.values if not value),
            )
            for column in workspace.table.columns
        ]
        return DataSummary(
            name=workspace.table.name, rows=len(workspace.table), unit=workspace.table.unit, columns=columns
        )

    @tool("read_rows", owned_by="librarian", read_only=True, risk_level="medium", registry=registry)
    def read_rows(count: Annotated[int, Ge(1)], only: RowFilterArgument = None) -> list[dict[str, str]]:
        """
        Read rows as they are.

        Args:
            count: How many, from the top.
            only: The rows wanted: column to values.
        """
        return [workspace.table.get_record(row) for row in islice(workspace.table.select_rows(only), count)]


def declare_table_tools(registry: ToolRegistry, workspace: Workspace) -> None:
    """Declare the tools of the category "tables": without an owner, for every agent that requests the category."""

    @tool("count_rows", category="tables", read_only=True, registry=registry)
    def count_rows(by: str, only: RowFilterArgument = None) -> dict[str, int]:
        """
        Count the rows for each value of a column, the commonest first.

        Args:
            by: The column.
            only: The rows to count: column to values.
        """
        values = workspace.table.get_column(by).values
        return dict(Counter(values[row] for row in workspace.table.select_rows(only)).most_common())

    @tool("average", category="tables", read_only=True, tags=["statistics"], registry=registry)
    def average(measure: str, by: Annotated[list[str], MinLen(1)], only: RowFilterArgument = None) -> list[Average]:
        """
        Average a column for each value of others; of a yes/no column: the share of yes.

        Args:
            measure: A column of numbers, or of yes and no.
            by: The columns by whose values the rows are grouped.
            only: The rows to use: column to values.
        """
        return compute_averages(workspace.table, measure, by=by, only=only)

    if workspace.table.unit == "line":

        @tool("common_words", category="tables", read_only=True, registry=registry)
        def common_words(most: Annotated[int, Ge(1)] = 5, letters: int = 6) -> list[Word]:
            """Count the words of the text that have at least so many letters, the commonest first."""
            lines = workspace.table.get_column("text").values
            counts = Counter(word for word in iter_words(iter(lines)) if len(word) >= letters)
            return [Word(word=word, times=times) for word, times in counts.most_common(most)]


def declare_fair_comparison(registry: ToolRegistry, workspace: Workspace) -> Tool[..., Any]:
    """Declare the late tool: the statistician lists it before it exists."""

    @tool("fair_comparison", category="statistics", read_only=True, tags=["statistics"], registry=registry)
    def fair_comparison(
        measure: str, by: str, within: list[str] | None = None, only: RowFilterArgument = None
    ) -> list[Comparison]:
        """
        Compare the values of a column with what their rows let expect, and say which differences are more than luck.

        Args:
            measure: A column of numbers, or of yes and no.
            by: The column whose values are compared.
            within: Only rows that agree in these columns are set against each other.
            only: The rows to use: column to values.
        """
        return compare_groups(workspace.table, measure, by=by, within=within or (), only=only)

    return fair_comparison


def declare_report_tools(registry: ToolRegistry, workspace: Workspace) -> None:
    """Declare the notebook, in which all may write and the reporter reads, and the tool that publishes."""

    @tool("note", owned_by="reporter", shared=True, idempotent=True, registry=registry)
    def note(text: Annotated[str, MinLen(1)], context: ToolContext) -> int:
        """Write a finding into the notebook, once however often this very call is run; returns its number."""
        return workspace.effects.add_once(_make_effect("note", text, context))

    @tool("read_notes", owned_by="reporter", read_only=True, registry=registry)
    def read_notes() -> list[NotebookEntry]:
        """Read all findings, the first one first."""
        return [NotebookEntry(author=note.by, text=note.text) for note in workspace.effects.read_by_tool("note")]

    @tool("publish", owned_by="analyst", requires_approval=True, open_world=True, risk_level="high", registry=registry)
    def publish(headline: str, findings: list[str], context: ToolContext) -> Report:
        """Publish the answer, with what the data are; only its owner may, who answers for the figures."""
        data: DataSummary = registry.execute_tool("describe_data")
        workspace.effects.add(
            _make_effect("publish", f"{headline} ({format_count(data.rows, data.unit)} of {data.name})", context)
        )
        return Report(headline=headline, findings=findings)


def _make_effect(tool: str, text: str, context: ToolContext) -> Effect:
    by = context.agent or "operator"
    return Effect(tool=tool, by=by, call=context.tool_call_id, key=context.idempotency_key, text=text)
