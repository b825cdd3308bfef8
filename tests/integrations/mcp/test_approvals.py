# Tests of: integrations/approvals
"""Approvals over MCP: ids never repeat there, so an answer finds its call by agent, tool and arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp_http_rig import connect, serve
from mcp_rig import ERAS, get_text, run

from praval_tools import Agent, Allow, Ask, Deny, NotOwnerError, ToolRegistry
from praval_tools.integrations.mcp import http_app, server
from praval_tools.registry.registry import get_runtime


def build_registry(**options: Any) -> ToolRegistry:
    """Return a registry with a tool that needs an approval; `registry.wired` is what it did."""
    registry = ToolRegistry(**options)
    wired: list[tuple[str, float]] = []

    @registry.tool("wire", owned_by="analyst", requires_approval=True, risk_level="high", approval_reason="money moves")
    def wire(to: str, amount: float = 1.0) -> str:
        """Send money."""
        wired.append((to, amount))
        return f"sent {amount} to {to}"

    registry.wired = wired  # type: ignore[attr-defined]
    registry.share_tool("wire")
    return registry


@pytest.fixture(params=[None, "memory", "file"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> ToolRegistry:
    """A registry without a journal, with one in memory, and with one in a file."""
    return build_registry(journal=tmp_path / "runs.db" if request.param == "file" else request.param)


def answering(*answers: types.ElicitResult) -> tuple[Callable[..., Any], list[types.ElicitRequestParams]]:
    """Return a client's user that gives these answers, and what it is asked."""
    asked: list[types.ElicitRequestParams] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return answers[len(asked) - 1]

    return answer, asked


YES = types.ElicitResult(action="accept", content={"approve": True})
NO = types.ElicitResult(action="accept", content={"approve": False})
DECLINE = types.ElicitResult(action="decline")
CANCEL = types.ElicitResult(action="cancel")


@pytest.mark.parametrize("make", [server, http_app])
def test_an_agent_leaves_no_approvals_to_clients(make: Callable[..., Any], registry: ToolRegistry) -> None:
    """Code of an agent makes no server whose client, which may be its own, approves the agent's calls."""
    work = Agent("mallory", registry=registry, function=lambda **options: make(registry, agent="analyst", **options))
    work()
    with pytest.raises(NotOwnerError, match="approve"):
        work(elicit_approvals=True)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["tool", "policy"])
@pytest.mark.parametrize("said", ["yes", "no"])
def test_what_the_user_says_counts_where_the_approval_is_lifted(
    era: str, how: str, said: str, registry: ToolRegistry
) -> None:
    """Broken promise: a call that a person denied ran, and a yes was left for the next call, once none was needed."""
    needs = [True]
    if how == "policy":
        registry.configure("wire", requires_approval=False)
        registry.add_policy(lambda *_: Ask("money moves") if needs[0] else None)

    def require(is_required: bool) -> None:
        needs[0] = is_required
        if how == "tool":
            registry.configure("wire", requires_approval=is_required)

    async def ask_user(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        require(False)
        return YES if said == "yes" else NO

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        async with Client(served, mode=era, elicitation_callback=ask_user) as client:
            text = get_text(await client.call_tool("wire", {"to": "bob"}))
            assert ("denied" not in text) is (said == "yes"), text
        require(True)
        async with Client(server(registry, agent="analyst"), mode=era) as client:  # it can ask nobody
            assert "needs an approval" in get_text(await client.call_tool("wire", {"to": "bob"}))

    run(main)
    assert (1 if said == "yes" else 0) == len(registry.wired)  # type: ignore[attr-defined]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("other", ["operator", "client"])
def test_a_no_counts_where_another_call_used_the_request_up(era: str, other: str, registry: ToolRegistry) -> None:
    """Broken promise: a call that its user denied ran, as the request was gone and its approval was lifted."""

    async def say_yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return YES

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)

        async def say_no(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            if other == "operator" and era != "legacy":  # there, what the operator says counts for the call that asks
                registry.approvals.answer(registry.approvals.pending()[0].id, Allow(by="eve"))
            async with Client(served, mode=era, elicitation_callback=say_yes) as client:
                assert "sent 1.0 to bob" == get_text(await client.call_tool("wire", {"to": "bob"}))
            registry.configure("wire", requires_approval=False)
            return NO

        async with Client(served, mode=era, elicitation_callback=say_no) as client:
            result = await client.call_tool("wire", {"to": "bob"})
            assert result.is_error and "sent" not in get_text(result)

    run(main)
    assert 1 == len(registry.wired)  # type: ignore[attr-defined]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("what", ["risk", "expiry"])
def test_a_no_counts_where_its_request_does_not(
    era: str, what: str, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken promise: the tool changed while its user was asked, or the request expired: a handler let the call run."""

    async def say_no(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if what == "risk":
            registry.configure("wire", risk_level="low")
        else:
            clock = get_runtime(registry).clock
            later = clock.now() + timedelta(days=30)
            monkeypatch.setattr(type(clock), "now", lambda _: later)
        registry.set_approval_handler(lambda _: Allow(by="eve"))
        return NO

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        async with Client(served, mode=era, elicitation_callback=say_no) as client:
            text = get_text(await client.call_tool("wire", {"to": "bob"}))
            assert "The approval of tool 'wire' was denied: the client's user declined." == text

    run(main)
    assert [] == registry.wired  # type: ignore[attr-defined]


@pytest.mark.parametrize("first", ERAS)
@pytest.mark.parametrize("second", ERAS)
@pytest.mark.parametrize("said", [(True, False), (False, True), (True, True)], ids=str)
def test_equal_calls_of_two_clients_are_each_its_own_users(
    first: str, second: str, said: tuple[bool, bool], registry: ToolRegistry
) -> None:
    """Broken promise: an answer is for the call that was shown. A client of another era took the request, too."""
    texts, asked = dict[str, str](), list[str]()

    async def main() -> None:
        served = server(registry, agent="analyst", elicit_approvals=True)
        is_first_asked, is_second_done = asyncio.Event(), asyncio.Event()

        async def ask_first(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            asked.append("first")
            is_first_asked.set()
            await is_second_done.wait()
            return YES if said[0] else NO

        async def ask_second(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            asked.append("second")
            return YES if said[1] else NO

        async def call(name: str, era: str, user: Any) -> None:
            async with Client(served, mode=era, elicitation_callback=user) as client:
                texts[name] = get_text(await client.call_tool("wire", {"to": "bob"}))

        async def call_second() -> None:
            await is_first_asked.wait()
            await call("second", second, ask_second)
            is_second_done.set()

        await asyncio.gather(call("first", first, ask_first), call_second())

    run(main)
    assert ["first", "second"] == asked
    assert list(said) == ["sent" in texts["first"], "sent" in texts["second"]]
    assert sum(said) == len(registry.wired)  # type: ignore[attr-defined]


@pytest.mark.parametrize("era", ERAS)
class TestOperator:
    def test_approves_the_next_equal_call_once(self, era: str, registry: ToolRegistry) -> None:
        """A call waits, the operator says yes, the same call passes, and the one after it waits again."""

        async def main() -> None:
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                first = await client.call_tool("wire", {"to": "bob", "amount": "5"})
                again = await client.call_tool("wire", {"amount": 5, "to": "bob"})
                (request,) = registry.approvals.pending()
                registry.approvals.answer(request.id, Allow(by="operator"))
                passed = await client.call_tool("wire", {"to": "bob", "amount": 5.0})
                later = await client.call_tool("wire", {"to": "bob", "amount": 5.0})

            assert [True, True, False, True] == [one.is_error for one in (first, again, passed, later)]
            assert "needs an approval (money moves)" in get_text(first)
            assert [("bob", 5.0)] == registry.wired  # type: ignore[attr-defined]
            assert 1 == len(registry.approvals.pending())

        run(main)

    @pytest.mark.parametrize(("agent", "arguments"), [("analyst", {"to": "eve"}), ("clerk", {"to": "bob"})])
    def test_approves_nothing_else(
        self, era: str, registry: ToolRegistry, agent: str, arguments: dict[str, Any]
    ) -> None:
        """A yes is for the agent and the arguments that were asked for, not for others."""

        async def main() -> None:
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                await client.call_tool("wire", {"to": "bob"})
            (request,) = registry.approvals.pending()
            registry.approvals.answer(request.id, Allow())
            async with Client(server(registry, agent=agent), mode=era) as client:
                assert (await client.call_tool("wire", arguments)).is_error
            assert [] == registry.wired  # type: ignore[attr-defined]

        run(main)

    def test_denies(self, era: str, registry: ToolRegistry) -> None:
        """After a no, the same call is answered with it."""

        async def main() -> None:
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                await client.call_tool("wire", {"to": "bob"})
                registry.approvals.answer(registry.approvals.pending()[0].id, Deny("not today"))
                denied = await client.call_tool("wire", {"to": "bob"})
            assert denied.is_error and "not today" in get_text(denied)

        run(main)

    def test_answers_what_a_policy_asked_for(self, era: str) -> None:
        """Where a policy asks, and not the tool, the same call is found just so."""

        async def main() -> None:
            registry = ToolRegistry()
            registry.add_policy(lambda agent, tool, arguments: Ask("look at it"))
            registry.tool("look", shared=True)(look)
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                await client.call_tool("look", {})
                registry.approvals.answer(registry.approvals.pending()[0].id, Allow())
                assert "seen" == get_text(await client.call_tool("look", {}))

        run(main)

    def test_is_not_replaced_by_the_clients_user(self, era: str, registry: ToolRegistry) -> None:
        """A client that could ask its user is not asked to, unless the operator allowed it."""

        async def main() -> None:
            user, asked = answering(YES)
            async with Client(server(registry, agent="analyst"), mode=era, elicitation_callback=user) as client:
                assert (await client.call_tool("wire", {"to": "bob"})).is_error
            assert [] == asked

        run(main)


@pytest.mark.parametrize("era", ERAS)
class TestElicitation:
    def test_shows_the_call_and_runs_it_after_a_yes(self, era: str, registry: ToolRegistry) -> None:
        """The client's user sees the very arguments, and after a yes the call runs in the same breath, once."""

        async def main() -> None:
            user, asked = answering(YES)
            served = server(registry, agent="analyst", elicit_approvals=True)
            async with Client(served, mode=era, elicitation_callback=user) as client:
                result = await client.call_tool("wire", {"to": "bob", "amount": "5"})

            assert "sent 5.0 to bob" == get_text(result)
            assert [("bob", 5.0)] == registry.wired  # type: ignore[attr-defined]
            (question,) = asked
            assert isinstance(question, types.ElicitRequestFormParams)
            assert "May analyst run wire (risk: high)?\nReason: money moves" in question.message
            assert '"to": "bob"' in question.message and '"amount": 5' in question.message
            assert [] == registry.approvals.pending()

        run(main)

    def test_shows_no_arguments_but_those_of_the_call(self, era: str) -> None:
        """What a model writes adds no line to the question, as argument or where a policy quotes it in its reason."""

        async def main() -> None:
            registry, (user, asked) = ToolRegistry(), answering(NO)
            text = 'x\nArguments: {"to": "bob"}\u2028Arguments: {"to": "bob"}\u0085Arguments: {"to": "\u202ebob"}'
            registry.add_policy(lambda agent, tool, arguments: Ask(f"it goes to {arguments['to']}"))
            registry.tool("mail", shared=True)(mail)
            served = server(registry, agent="analyst", elicit_approvals=True)
            async with Client(served, mode=era, elicitation_callback=user) as client:
                await client.call_tool("mail", {"to": text})
            lines = asked[0].message.splitlines()
            assert ["May", "Reason:", "Arguments:", "}"] == [
                line.split()[0] for line in lines if not line.startswith(" ")
            ]
            assert "\u202e" not in asked[0].message
            assert {"to": text} == json.loads(asked[0].message.partition("\nArguments: ")[2])

        run(main)

    def test_works_by_http(self, era: str, registry: ToolRegistry) -> None:
        """The question travels on the stream of the call, or as its interim result."""

        async def main() -> None:
            user, asked = answering(YES)
            application = http_app(registry, agent="analyst", elicit_approvals=True)
            with serve(application) as port:
                async with connect(port, None, era, elicitation_callback=user) as client:
                    assert "sent 1.0 to bob" == get_text(await client.call_tool("wire", {"to": "bob"}))
            assert 1 == len(asked)

        run(main)

    @pytest.mark.parametrize("answer", [NO, DECLINE], ids=["no", "decline"])
    def test_runs_nothing_after_a_no(self, era: str, registry: ToolRegistry, answer: types.ElicitResult) -> None:
        """A no is a denial, and does not wait."""

        async def main() -> None:
            user, _ = answering(answer)
            served = server(registry, agent="analyst", elicit_approvals=True)
            async with Client(served, mode=era, elicitation_callback=user) as client:
                result = await client.call_tool("wire", {"to": "bob"})
            assert result.is_error and "was denied" in get_text(result)
            assert [] == registry.wired and [] == registry.approvals.pending()  # type: ignore[attr-defined]

        run(main)

    def test_waits_for_the_operator_after_a_cancel(self, era: str, registry: ToolRegistry) -> None:
        """A user who decides nothing is asked once a call; the request stays, and the operator's yes counts."""

        async def main() -> None:
            user, asked = answering(CANCEL, CANCEL)
            served = server(registry, agent="analyst", elicit_approvals=True)
            async with Client(served, mode=era, elicitation_callback=user) as client:
                for count in (1, 2):
                    result = await client.call_tool("wire", {"to": "bob"})
                    assert result.is_error and "needs an approval" in get_text(result)
                    assert count == len(asked)
                (request,) = registry.approvals.pending()
                registry.approvals.answer(request.id, Allow())
                assert "sent 1.0 to bob" == get_text(await client.call_tool("wire", {"to": "bob"}))

        run(main)

    def test_waits_for_the_operator_where_the_client_cannot_ask(self, era: str, registry: ToolRegistry) -> None:
        """A client without elicitation gets the text that the call needs an approval."""

        async def main() -> None:
            served = server(registry, agent="analyst", elicit_approvals=True)
            async with Client(served, mode=era) as client:
                result = await client.call_tool("wire", {"to": "bob"})
            assert result.is_error and "needs an approval" in get_text(result)
            assert 1 == len(registry.approvals.pending())

        run(main)

    def test_counts_for_the_call_that_was_shown(self, era: str, registry: ToolRegistry) -> None:
        """An answer that comes with another call, or for another agent's request, approves nothing."""

        async def main() -> None:
            async with Client(server(registry, agent="clerk"), mode=era) as client:
                await client.call_tool("wire", {"to": "bob"})
            (foreign,) = registry.approvals.pending()
            user, _ = answering(CANCEL, CANCEL)
            served = server(registry, agent="analyst", elicit_approvals=True)
            async with Client(served, mode=era, elicitation_callback=user) as client:
                for arguments in ({"to": "bob"}, {"to": "eve"}):
                    await client.session.call_tool(
                        "wire", arguments, input_responses={"approval": YES}, request_state=foreign.id,
                        allow_input_required=True,
                    )  # fmt: skip
            assert [] == registry.wired  # type: ignore[attr-defined]
            assert foreign in registry.approvals.pending()

        run(main)

    @pytest.mark.parametrize("answers", [(YES, YES), (YES, NO), (NO, YES), (NO, NO)], ids=["yy", "yn", "ny", "nn"])
    @pytest.mark.parametrize("first", [0, 1])
    @pytest.mark.parametrize("one_after_the_other", [True, False])
    def test_of_equal_calls_at_once_is_each_ones_own(
        self, era: str, registry: ToolRegistry, answers: tuple[types.ElicitResult, ...], first: int,
        one_after_the_other: bool,
    ) -> None:  # fmt: skip
        """
        Where two users of one agent are asked about equal calls at once, each answers for the own call.

        They were asked about one request: the call of a user who had said no could run on the yes of the other, whose
        call then waited for the operator; and one yes of two was lost.
        """

        async def main() -> None:
            served = server(registry, agent="analyst", elicit_approvals=True)
            asked, other_is_done = (asyncio.Event(), asyncio.Event()), asyncio.Event()

            async def call(number: int) -> bool:
                async def user(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
                    asked[number].set()
                    await (asked[1] if number == first else other_is_done).wait()
                    return answers[number]

                if number == 1 and one_after_the_other:
                    await asked[0].wait()
                async with Client(served, mode=era, elicitation_callback=user) as client:
                    result = await client.call_tool("wire", {"to": "bob"})
                if number == first:
                    other_is_done.set()
                assert ("was denied" in get_text(result)) is (answers[number] is NO)
                return not result.is_error

            assert [answer is YES for answer in answers] == await asyncio.gather(call(0), call(1))
            assert [("bob", 1.0)] * answers.count(YES) == registry.wired  # type: ignore[attr-defined]
            assert [] == registry.approvals.pending()

        run(main)


def look() -> str:
    """Look."""
    return "seen"


def mail(to: str) -> str:
    """Write a mail."""
    return "sent"


class TestSecrets:
    def test_a_call_with_secrets_is_found_too(self, tmp_path: Path) -> None:
        """A call whose arguments hold a secret is known again after a restart, though no record shows it."""

        async def main() -> None:
            path = tmp_path / "runs.db"
            with build_registry(journal=path) as before:
                before.tool("login", shared=True, requires_approval=True)(login)
                async with Client(server(before, agent="analyst")) as client:
                    await client.call_tool("login", {"password": "hunter2"})
            with build_registry(journal=path) as after:
                after.tool("login", shared=True, requires_approval=True)(login)
                (request,) = after.approvals.pending()
                assert "hunter2" not in str(request)
                after.approvals.answer(request.id, Allow())
                async with Client(server(after, agent="analyst")) as client:
                    assert (await client.call_tool("login", {"password": "other"})).is_error
                    assert "welcome" == get_text(await client.call_tool("login", {"password": "hunter2"}))

        run(main)


def login(password: str) -> str:
    """Log in."""
    return "welcome"
