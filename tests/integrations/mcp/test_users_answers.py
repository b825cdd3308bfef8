# Tests of: integrations/approvals
"""What the user of an MCP client answers counts for the call that it was asked about, and for no equal one."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp_http_rig import HANDSHAKE, RawClient, read_all, request, serve
from mcp_rig import ERAS, get_text, run

from praval_tools import Allow, Deny, ToolCall, ToolContext, ToolRegistry
from praval_tools.execution.approvals import list_unused_entries
from praval_tools.integrations.mcp import http_app, open_tokens, server
from praval_tools.registry.registry import get_runtime

YES = types.ElicitResult(action="accept", content={"approve": True})
NO = types.ElicitResult(action="accept", content={"approve": False})


@pytest.fixture
def wired() -> list[str]:
    """Return what the tool did."""
    return []


@pytest.fixture(params=[None, "memory", "file"])
def registry(request: pytest.FixtureRequest, tmp_path: Path, wired: list[str]) -> ToolRegistry:
    """A registry with a tool that needs an approval: without a journal, with one in memory, and with one in a file."""
    registry = ToolRegistry(journal=tmp_path / "runs.db" if request.param == "file" else request.param)

    @registry.tool("wire", shared=True, requires_approval=True)
    def wire(to: str) -> str:
        """Send money."""
        wired.append(to)
        return "sent"

    return registry


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("said", [YES, NO], ids=["yes", "no"])
def test_of_a_call_that_did_not_run_is_for_no_other(
    era: str, said: types.ElicitResult, registry: ToolRegistry, wired: list[str]
) -> None:
    """Broken promise: a yes that was left ran the equal call of another client, whose user would have said no."""
    asked = list[str]()

    async def answer_first(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append("first")
        registry.block("wire", "analyst")
        return said

    async def answer_second(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append("second")
        return NO if said is YES else YES

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        async with Client(served, mode=era, elicitation_callback=answer_first) as client:
            assert (await client.call_tool("wire", {"to": "bob"})).is_error
        registry.unblock("wire", "analyst")
        async with Client(served, mode=era, elicitation_callback=answer_second) as client:
            assert (said is YES) is (await client.call_tool("wire", {"to": "bob"})).is_error

    run(main)
    assert ["first", "second"] == asked
    assert ([] if said is YES else ["bob"]) == wired


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("operator", [Allow(by="eve"), Deny("not today", "eve")], ids=["allow", "deny"])
@pytest.mark.parametrize("said", [YES, NO], ids=["yes", "no"])
def test_of_no_ends_the_call_whatever_the_operator_says(
    era: str, operator: Allow | Deny, said: types.ElicitResult, registry: ToolRegistry, wired: list[str]
) -> None:
    """Who is asked at the same moment as the operator is not passed over: a no of either is one."""

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        registry.approvals.answer(registry.approvals.pending()[0].id, operator)
        return said

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        async with Client(served, mode=era, elicitation_callback=answer) as client:
            text = get_text(await client.call_tool("wire", {"to": "bob"}))
            assert ("was denied" in text) is (said is NO or isinstance(operator, Deny)), text

    run(main)
    assert (["bob"] if said is YES and isinstance(operator, Allow) else []) == wired


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("said", [YES, NO], ids=["yes", "no"])
@pytest.mark.parametrize("call_id", ["c1", "c1/mcp-0123456789ab"])
def test_are_for_no_call_outside_of_mcp(
    era: str, said: types.ElicitResult, call_id: str, registry: ToolRegistry, wired: list[str]
) -> None:
    """Broken promise: a client's user answered an equal call of the host, for which the operator was asked."""
    host_call = ToolCall(call_id, "wire", {"to": "bob"}, "analyst")
    waiting = registry.execute(host_call).approval_id

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        registry.block("wire", "analyst")
        return said

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        async with Client(served, mode=era, elicitation_callback=answer) as client:
            assert (await client.call_tool("wire", {"to": "bob"})).is_error

    run(main)
    registry.unblock("wire", "analyst")
    registry.approvals.answer(str(waiting), Deny("not today", "eve"))
    assert "not today" in str(registry.execute(host_call).error)
    assert [] == wired


@pytest.mark.parametrize("era", ERAS)
def test_of_the_operator_are_for_the_call_that_was_shown(era: str, registry: ToolRegistry, wired: list[str]) -> None:
    """Broken promise: what the operator approved was a call of the host, and an equal one over MCP ran."""
    host_call = ToolCall("c1", "wire", {"to": "bob"}, "analyst")
    registry.approvals.answer(str(registry.execute(host_call).approval_id), Allow(by="eve"))

    async def main() -> None:
        async with Client(server(registry, agent="analyst"), mode=era) as client:
            assert "needs an approval" in get_text(await client.call_tool("wire", {"to": "bob"}))

    run(main)
    assert [] == wired
    assert registry.execute(host_call).success


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("who", ["user", "operator"])
def test_count_inside_a_run(era: str, who: str, wired: list[str]) -> None:
    """A server that is used inside a journaled run never found the approvals of its calls."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("wire", shared=True, requires_approval=True)
    def wire(to: str) -> str:
        """Send money."""
        wired.append(to)
        return "sent"

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return YES

    async def main() -> None:
        async with registry.run("r"):
            served = server(registry, agent="analyst", elicit_approvals=who == "user")
            async with Client(served, mode=era, elicitation_callback=answer) as client:
                for _ in range(2):
                    result = await client.call_tool("wire", {"to": "bob"})
                    if who == "operator":
                        assert result.is_error
                        registry.approvals.answer(registry.approvals.pending()[0].id, Allow(by="eve"))
                        result = await client.call_tool("wire", {"to": "bob"})
                    assert "sent" == get_text(result)

    run(main)
    assert ["bob", "bob"] == wired


@pytest.mark.parametrize("era", ERAS)
def test_a_call_that_needs_no_approval_any_more_is_another_one(era: str, registry: ToolRegistry) -> None:
    """It had the id and the key of the one that waits, which then ran with the same key."""
    keys = list[str | None]()

    @registry.tool("pay", shared=True, requires_approval=True)
    def pay(context: ToolContext) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return "paid"

    async def main() -> None:
        async with Client(server(registry, agent="analyst"), mode=era) as client:
            await client.call_tool("pay", {})
            registry.configure("pay", requires_approval=False)
            assert "paid" == get_text(await client.call_tool("pay", {}))
            registry.configure("pay", requires_approval=True)
            (request,) = registry.approvals.pending()
            registry.approvals.answer(request.id, Allow(by="eve"))
            assert "paid" == get_text(await client.call_tool("pay", {}))

    run(main)
    assert 2 == len(set(keys))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("operator", [Allow(by="eve"), Deny("not today", "eve"), None], ids=["allow", "deny", "none"])
def test_of_no_leaves_nothing_for_later_calls(
    era: str, operator: Allow | Deny | None, registry: ToolRegistry, wired: list[str]
) -> None:
    """The next equal call is another one: whatever the operator had answered meanwhile, its own user is asked."""
    said = [NO, YES]

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if len(said) == 2 and operator is not None:
            registry.approvals.answer(registry.approvals.pending()[0].id, operator)
        return said.pop(0)

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        async with Client(served, mode=era, elicitation_callback=answer) as client:
            assert "was denied" in get_text(await client.call_tool("wire", {"to": "bob"}))
            assert "sent" == get_text(await client.call_tool("wire", {"to": "bob"}))

    run(main)
    assert ["bob"] == wired and [] == said
    assert [] == list_unused_entries(get_runtime(registry).approvals)


def test_of_many_equal_calls_at_once_is_each_ones_own(registry: ToolRegistry, wired: list[str]) -> None:
    """Broken promise: of four calls two were shown one request, and one could run though its own user said no."""
    choice = random.Random(1)
    said = {f"bob {number}": [choice.random() < 0.5 for _ in range(4)] for number in range(60)}

    async def call(client: Client, to: str, **answer: Any) -> Any:
        for _ in range(choice.randrange(5)):
            await asyncio.sleep(0)
        return await client.session.call_tool("wire", {"to": to}, allow_input_required=True, **answer)

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        async with AsyncExitStack() as stack:
            new_clients = [Client(served, elicitation_callback=ask_nobody) for _ in range(4)]
            clients = [await stack.enter_async_context(client) for client in new_clients]
            for to, answers in said.items():
                asked = await asyncio.gather(*(call(client, to) for client in clients))
                states = [one.request_state for one in asked]
                assert 4 == len(set(states))
                responses = [{"approval": YES if yes else NO} for yes in answers]
                ended = await asyncio.gather(*(
                    call(client, to, request_state=state, input_responses=response)
                    for client, state, response in zip(clients, states, responses, strict=True)
                ))  # fmt: skip
                assert answers == [not one.is_error for one in ended]

    run(main)
    assert [to for to, answers in said.items() for yes in answers if yes] == wired


async def ask_nobody(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Make the client one that can ask its user; what is asked is answered by hand."""
    raise AssertionError(params)


def test_that_comes_after_its_token_was_revoked_does_not_count(
    registry: ToolRegistry, wired: list[str], tmp_path: Path
) -> None:
    """Broken promise: a yes of which the rest came after its token was revoked let the call run."""
    tokens = open_tokens(None, file=tmp_path / "tokens")
    with serve(http_app(registry, tokens=tokens, elicit_approvals=True)) as port:
        raw = RawClient(port, tokens.add("analyst"))
        session = raw.initialize(capabilities={"elicitation": {}})
        headers = {**raw.headers, "Mcp-Session-Id": session, "Mcp-Protocol-Version": HANDSHAKE}
        call = json.dumps(request("tools/call", name="wire", arguments={"to": "bob"}))
        with httpx2.stream("POST", raw.url, content=call, headers=headers, timeout=60) as stream:
            messages = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {"))
            question = next(messages)
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": YES.model_dump(exclude_none=True)}
            body = json.dumps(answer).encode()
            headers |= {"Host": f"127.0.0.1:{port}", "Content-Length": str(len(body)), "Expect": "100-continue"}
            head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "Connection": "close"}.items())
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode())
                assert b"100" in connection.recv(1_000)  # the token was found: the answer is waited for
                tokens.revoke(tokens.list()[0].id)
                connection.sendall(body)
                read_all(connection)
            assert "revoked" in next(messages)["error"]["message"]

    assert [] == wired
    assert 1 == len(registry.approvals.pending())
