"""Limits and checks the answers of an MCP server before the SDK parses them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Final

from mcp.client import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import PARSE_ERROR, PaginatedRequestParams, RequestId, methods
from pydantic import ValidationError

from praval_tools.integrations.foreign_text import quote_name, remove_secrets
from praval_tools.schema.json_values import iter_json_problems, to_canonical_json
from praval_tools.schema.schema_tree import JsonSchema

_MAX_PAGES: Final = 1_000
_MAX_BLOCKS: Final = 10_000
"""How many parts an answer may have; the SDK takes a second for each 50,000, in which nothing else is done."""

_LARGE_ANSWER: Final = 10_000
"""An answer of more values is checked in a thread, so that the calls of other servers go on meanwhile."""

_request_id: ContextVar[RequestId | None] = ContextVar("praval_tools_mcp_request", default=None)


class CheckingDispatcher(JSONRPCDispatcher[TransportContext]):
    """
    Passes requests on as the SDK's does, and takes out of each answer what would harm more than its own tool.

    Of a page of tools the session gets those that it can read, without their output schemas: one that is malformed
    would cost it all of them, and it would check results by Python's regular expressions, which a server can make run
    for ever. `page` holds the tools as they came.
    """

    version: str = "2025-11-25"
    secrets: tuple[str, ...] = ()
    tools_left: int = 0

    def start_listing(self, max_tools: int) -> None:
        """Make ready for the first page of a listing, of which *max_tools* are taken."""
        self.page: list[JsonSchema] = []
        self.problems: list[str] = []
        self.tools_left = max_tools

    async def send_raw_request(
        self, method: str, params: Mapping[str, object] | None, opts: CallOptions | None = None,
        *, _related_request_id: RequestId | None = None,
    ) -> JsonSchema:  # fmt: skip
        """Send a request, and return the checked answer."""
        if method == "tools/call" and (request_id := _request_id.get()) is not None:
            opts = CallOptions(**(opts or {}), request_id=request_id)
        raw = await super().send_raw_request(method, params, opts, _related_request_id=_related_request_id)
        if method == "tools/list":
            return await asyncio.to_thread(self._check_page, raw)
        return await asyncio.to_thread(self._check_answer, raw) if _is_large(raw) else self._check_answer(raw)

    def _check_answer(self, raw: JsonSchema) -> JsonSchema:
        if isinstance(content := raw.get("content"), list) and len(content) > _MAX_BLOCKS:
            raise MCPError(PARSE_ERROR, f"the answer has more than {_MAX_BLOCKS:,} parts")
        for _, reason, _ in iter_json_problems(raw):
            raise MCPError(PARSE_ERROR, f"the answer {reason}")
        checked = remove_secrets(raw, self.secrets)
        return checked if isinstance(checked, dict) else raw

    def _check_page(self, raw: JsonSchema) -> JsonSchema:
        tools = raw.get("tools")
        tools = tools if isinstance(tools, list) else []
        if len(tools) > self.tools_left:
            self.problems.append("it lists more tools than are taken; the last ones are left out.")
        readable = []
        for tool in tools[: self.tools_left]:
            self.tools_left -= 1
            stripped = tool
            if isinstance(tool, dict):
                stripped = {key: value for key, value in tool.items() if key != "outputSchema"}
            if reason := self._find_defect(raw, stripped):
                name = tool.get("name") if isinstance(tool, dict) else None
                shown = remove_secrets(name, self.secrets) if isinstance(name, str) else None
                text = f"Tool {quote_name(shown)} is left out: {reason}."
                self.problems.append(str(remove_secrets(text, self.secrets)))
            else:
                readable.append(stripped)
                whole = remove_secrets(tool, self.secrets)
                self.page.append(whole if isinstance(whole, dict) else tool)
        return {**raw, "tools": readable}

    def _find_defect(self, page: JsonSchema, tool: object) -> str:
        """Return why the session could not read a page with *tool* in it."""
        for _, reason, _ in iter_json_problems(tool):
            return f"its definition {reason}"
        try:
            methods.validate_server_result("tools/list", self.version, {**page, "tools": [tool]})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return ""


async def fetch_tools(
    session: ClientSession, dispatcher: CheckingDispatcher, *, max_tools: int, max_bytes: int
) -> tuple[list[JsonSchema], list[str]]:
    """
    Return all tools that a server lists, as they came, and what is wrong with others.

    Raises:
        MCPError: It does not list them.
    """
    dispatcher.start_listing(max_tools)
    tools, cursors, size = list[JsonSchema](), set[str](), 0
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        dispatcher.page = []
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        known = {tool.name for tool in page.tools}  # without those that the session leaves out
        for tool in dispatcher.page:
            size += len(to_canonical_json(tool))
            if size > max_bytes:
                return tools, [*dispatcher.problems, f"it lists more than {max_bytes:,} characters of tools."]
            if tool["name"] in known:
                tools.append(tool)
            else:
                name = quote_name(tool["name"])
                dispatcher.problems.append(f"Tool {name} is left out: its x-mcp-header is not valid.")
        cursors |= {cursor} if cursor else set()
        cursor = page.next_cursor
        if not cursor or cursor in cursors or dispatcher.tools_left <= 0:
            break
    if cursor:
        dispatcher.problems.append("its listing has no end, or too many tools; what came first is taken.")
    return tools, dispatcher.problems


def _is_large(value: object) -> bool:
    """Tell whether a JSON value holds many values, in little time."""
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            count += len(item)
            if count > _LARGE_ANSWER:
                return True
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return False


def get_request_id() -> RequestId | None:
    """Return the id of the call that a message belongs to; None where the transport does not say."""
    return _request_id.get()


_numbers: Final = count(1)


@contextmanager
def use_request_id() -> Iterator[RequestId]:
    """Give the call that is sent in the `with` block an id, and return it."""
    request_id = f"call-{next(_numbers)}"
    token = _request_id.set(request_id)
    try:
        yield request_id
    finally:
        _request_id.reset(token)
