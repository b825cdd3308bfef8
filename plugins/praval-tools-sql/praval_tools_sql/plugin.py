"""The plugin that the host loads: its settings and its tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias

import pluggy
from annotated_types import Ge, MaxLen, MinLen
from attrs import frozen
from praval_tools import Tool, ToolContext, tool

from praval_tools_sql.protocol import Answer
from praval_tools_sql.results import Change, Column, Description, ForeignKey, Index, Rows, TableName, Tables
from praval_tools_sql.settings import SqlSettings
from praval_tools_sql.worker_process import GRACE_SECONDS, run_in_worker

AnyTool: TypeAlias = Tool[..., Any]

hookimpl = pluggy.HookimplMarker("praval_tools")

_TAGS: Final = ("sql", "database")
_TIMEOUT_MARGIN: Final = 3.0
"""Seconds by which the call's time-out follows the tool's own, so that the tool's message is what is read."""

Identifier = Annotated[str, MinLen(1), MaxLen(200)]
Statement = Annotated[str, MinLen(1), MaxLen(100_000)]
Parameters = dict[str, str | int | float | bool | None]


@hookimpl
def praval_tools_settings() -> type[SqlSettings]:
    """Return the class of the settings."""
    return SqlSettings


@hookimpl
def praval_tools_register_tools(settings: SqlSettings) -> Iterable[AnyTool]:
    """Return the tools for the database that *settings* declares."""
    made = SqlTools(settings)
    readers = (made.build_tables_tool(), made.build_describe_tool(), made.build_query_tool())
    return (*readers, made.build_write_tool()) if settings.write else readers


@frozen
class SqlTools:
    """Makes the tools for one database."""

    settings: SqlSettings

    def _run_request(self, context: ToolContext, do: str, **more: Any) -> Answer:
        limits = self.settings
        request = {
            "do": do,
            "url": limits.get_database_url(),
            "timeout": limits.timeout,
            "memory": limits.max_memory_mb,
            "superuser": limits.allow_superuser,
            "rows": limits.max_rows,
            "bytes": limits.max_result_bytes,
            "chars": limits.max_value_chars,
        }
        return run_in_worker(
            {**request, **more}, timeout=limits.timeout + GRACE_SECONDS, cancelled=lambda: context.cancelled
        )

    def _get_common_options(self) -> dict[str, Any]:
        return {
            "category": "sql",
            "tags": _TAGS,
            "safety": "sandboxed",
            "register": False,
            "timeout": self.settings.timeout + GRACE_SECONDS + _TIMEOUT_MARGIN,
        }

    def build_tables_tool(self) -> AnyTool:
        """Return the tool that lists tables."""

        @tool("sql_tables", read_only=True, open_world=False, title="List tables", **self._get_common_options())
        def sql_tables(context: ToolContext, schema: Identifier | None = None) -> Tables:
            """
            List the tables and views of the database, and its schemas.

            Args:
                schema: The schema; the database's default one where left out.
            """
            answer = self._run_request(context, "tables", schema=schema)
            return Tables(**{**answer, "tables": [TableName(**item) for item in answer["tables"]]})

        return sql_tables

    def build_describe_tool(self) -> AnyTool:
        """Return the tool that describes a table."""

        @tool("sql_describe", read_only=True, open_world=False, title="Describe a table", **self._get_common_options())
        def sql_describe(context: ToolContext, table: Identifier, schema: Identifier | None = None) -> Description:
            """
            Describe a table or view: columns, keys, indexes.

            Args:
                table: Its name, as sql_tables spells it.
                schema: Its schema; the database's default one where left out.
            """
            answer = self._run_request(context, "describe", table=table, schema=schema)
            return Description(
                columns=[Column(**item) for item in answer["columns"]],
                foreign_keys=[ForeignKey(**item) for item in answer["foreign_keys"]],
                indexes=[Index(**item) for item in answer["indexes"]],
            )

        return sql_describe

    def build_query_tool(self) -> AnyTool:
        """Return the tool that queries."""
        most = self.settings.max_rows

        @tool(
            "sql_query",
            read_only=True,
            open_world=False,
            risk_level="medium",
            title="Query",
            **self._get_common_options(),
        )
        def sql_query(
            context: ToolContext,
            sql: Statement,
            parameters: Parameters | None = None,
            limit: Annotated[int, Ge(1)] = 100,
        ) -> Rows:
            """
            Run one SELECT and return its rows; the database itself refuses whatever would change something.

            Args:
                sql: The statement, with :name where a value belongs.
                parameters: The values by name; they are bound, never pasted into the statement.
                limit: At most how many rows; the operator may allow fewer.
            """
            given = parameters or {}
            return Rows(**self._run_request(context, "query", sql=sql, parameters=given, rows=min(limit, most)))

        return sql_query

    def build_write_tool(self) -> AnyTool:
        """Return the tool that writes."""

        @tool(
            "sql_write",
            destructive=True,
            idempotent=False,
            risk_level="high",
            requires_approval=True,
            approval_reason="It changes the database, and what it deletes is gone.",
            title="Change the database",
            **self._get_common_options(),
        )
        def sql_write(context: ToolContext, sql: Statement, parameters: Parameters | None = None) -> Change:
            """
            Run one statement that changes the database, and commit it; a person approves each call.

            Args:
                sql: The statement, with :name where a value belongs.
                parameters: The values by name; they are bound, never pasted into the statement.
            """
            answer = self._run_request(context, "write", sql=sql, parameters=parameters or {})
            return Change(affected=answer["affected"], rows=Rows(**answer["rows"]))

        return sql_write
