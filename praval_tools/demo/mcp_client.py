"""
The MCP client of the demo's MCP scene: a separate program that has an address and a token, and uses the MCP SDK alone.

It works by a fixed script and prints what it sees, a JSON object per line:
`python -m praval_tools.demo.mcp_client URL`, the token in `PRAVAL_TOOLS_DEMO_TOKEN`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Final

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

TOKEN_VARIABLE: Final = "PRAVAL_TOOLS_DEMO_TOKEN"  # noqa: S105
_PATIENCE_SECONDS: Final = 30.0
"""How long a change of the list, or an answer, may take at most; the server promises a second."""


async def follow_script(url: str, token: str) -> None:
    """Look, work, be refused, wait for a grant, use it, and go on until the token is refused."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=_PATIENCE_SECONDS) as http:
        async with _connect(url, http) as client, client.listen(tools_list_changed=True) as changes:
            await _show_list(client)
            await _call(client, "count_delays", airline="JetBlue")
            await _call(client, "publish", headline="JetBlue flew")
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await anext(aiter(changes))
            await _show_list(client)
            await _call(client, "publish", headline="JetBlue flew")
            await _call(client, "publish", headline="JetBlue flew again")
        _print(event="end")
        await asyncio.to_thread(sys.stdin.readline)
        answer = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        _print(event="refusal", status=answer.status_code)


def _connect(url: str, http: httpx2.AsyncClient) -> Client:
    return Client(streamable_http_client(url, http_client=http))


async def _show_list(client: Client) -> None:
    listing = await client.list_tools(cache_mode="bypass")
    _print(event="list", tools=[tool.name for tool in listing.tools])


async def _call(client: Client, name: str, **arguments: object) -> None:
    result = await client.session.call_tool(name, arguments)
    text = " ".join(getattr(block, "text", "") for block in result.content)
    _print(event="call", tool=name, is_error=bool(result.is_error), text=text)


def _print(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    asyncio.run(follow_script(sys.argv[1], os.environ[TOKEN_VARIABLE]))
