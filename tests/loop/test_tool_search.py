"""Loops whose models find their tools: what is sent, in every way to run them, and through each provider's SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from format_rig import sdk
from loop_rig import Run, run  # noqa: F401
from model_server import ModelServer

from praval_tools import DuplicateToolError, Outcome, Tool, ToolContext, ToolRegistry, ToolUsageError, UnknownToolError
from praval_tools.loop import AnthropicMessages, OpenAIChat, OpenAIResponses, ToolLoop, ToolSearch
from praval_tools.testing import fake_model

LETTERS = ("search_tools", {"query": "send a letter"})
MAIL = ("mail_send", {"text": "Hello."})


def do(**arguments: object) -> str:
    """Do it."""
    return "done"


def add_tool(registry: ToolRegistry, name: str, description: str, **more: Any) -> None:
    """Register a tool with a text as parameter."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    registry.register_tool(Tool(name, description, schema, do, **{"shared": True, **more}))


def fill(registry: ToolRegistry) -> ToolRegistry:
    """Return *registry* with a hundred tools for numbers, one for letters, and one for letters that is bob's."""
    with registry.change():
        for number in range(100):
            add_tool(registry, f"number_{number}", f"Work with the number {number}.", tags=["numbers"])
        add_tool(registry, "mail.send", "Send a letter.", tags=["post"])
        add_tool(registry, "stamp", "Frank a letter.", owned_by="bob", shared=False)
    return registry


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with many tools and a journal."""
    with ToolRegistry(journal="memory") as made:
        yield fill(made)


def names(tools: Any) -> list[str]:
    """Return the names of the tools of a request, in any format."""
    return [one.get("name") or one.get("function", {}).get("name") or one["type"] for one in tools]


def sent(model: Any) -> list[list[str]]:
    """Return the names of the tools of each request."""
    return [names(request.tools) for request in model.requests]


class TestSending:
    @pytest.mark.parametrize("api_format", ["openai-chat", "gemini", "anthropic"])
    def test_what_is_found_is_sent(self, api_format: str, registry: ToolRegistry, run: Run) -> None:
        """The search tool and those sent always come first; what was found is there from the next step on."""
        model = fake_model(LETTERS, MAIL, "Sent.", api_format=api_format)
        search = ToolSearch(registry, always=["number_7"])
        ended = run(ToolLoop(registry.agent("ann"), model, tool_search=search))

        first = ["search_tools", "number_7"]
        assert [first, [*first, "mail_send"], [*first, "mail_send"]] == sent(model)
        assert [{"name": "mail_send", "description": "Send a letter."}] == ended.results[0].result
        assert "Sent." == ended.text
        assert [Outcome.OK, Outcome.OK] == [one.outcome for one in ended.results]

    def test_two_agents_with_one_search(self, registry: ToolRegistry, run: Run) -> None:
        """Each finds what it may call, and is sent what it found itself."""
        search = ToolSearch(registry)
        models = [fake_model(LETTERS, "Done.") for _ in range(4)]
        agents = [registry.agent(name) for name in ("ann", "bob")] + [
            registry.agent("bob").delegate("ann"), registry.agent("bob").delegate("ann", mode="inherit")
        ]  # fmt: skip
        for agent, model in zip(agents, models, strict=True):
            run(ToolLoop(agent, model, tool_search=search))
        found = [{*sent(model)[1]} - {"search_tools"} for model in models]
        assert [{"mail_send"}, {"mail_send", "stamp"}, {"mail_send"}, {"mail_send", "stamp"}] == found

    def test_loops_at_the_same_time(self, registry: ToolRegistry) -> None:
        """One loop that is run many times at once keeps what each conversation found apart."""
        questions = [f"the number {number}" for number in range(8)]

        class Asking:
            format = "openai-chat"

            def reply(self, request: Any) -> Any:
                question = request.messages[0]["content"]
                if request.step == 1:
                    call = {"id": "c", "type": "function", "function": {
                        "name": "search_tools", "arguments": f'{{"query": "{question}", "limit": 1}}'}}  # fmt: skip
                    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
                return " ".join(names(request.tools))

        loop = ToolLoop(registry.agent("ann"), Asking(), tool_search=ToolSearch(registry))

        async def ask() -> list[Any]:
            return await asyncio.gather(*(loop.arun(question) for question in questions))

        texts = [ended.text for ended in asyncio.run(ask())]
        assert [f"search_tools number_{number}" for number in range(8)] == texts

    def test_revoked_after_it_was_found(self, registry: ToolRegistry, run: Run) -> None:
        """What is taken from the agent is not sent any more, and is refused as always; given back, it is sent again."""

        def block(request: Any) -> Any:
            registry.block("mail.send", "ann")
            return MAIL

        def unblock(request: Any) -> Any:
            registry.unblock("mail.send", "ann")
            return ("number_1", {})

        model = fake_model(LETTERS, block, unblock, "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model, tool_search=ToolSearch(registry)))
        both = ["search_tools", "mail_send"]
        assert [["search_tools"], both, ["search_tools"], both] == sent(model)
        assert ["ok", "forbidden", "ok"] == [one.outcome for one in ended.results]

    def test_a_call_of_what_was_not_found(self, registry: ToolRegistry, run: Run) -> None:
        """A tool that a model knows without having found it is decided as always: run if the agent may call it."""
        model = fake_model([("number_3", {}), ("stamp", {}), ("no_such", {})], "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model, tool_search=ToolSearch(registry)))
        assert ["ok", "forbidden", "unknown_tool"] == [one.outcome for one in ended.results]

    @pytest.mark.parametrize("narrowed", [{"tags": ["post"]}, {"exclude_tags": ["numbers", "read_only"]}])
    def test_tags_hold_for_searches(self, narrowed: Any, registry: ToolRegistry, run: Run) -> None:
        """A loop that leaves tools out does not find them either; the search tool itself is there."""
        everything = ("search_tools", {"query": "letter number work", "limit": 20})
        model = fake_model(everything, ("number_1", {}), "Done.")
        loop = ToolLoop(registry.agent("ann"), model, tool_search=ToolSearch(registry), **narrowed)
        ended = run(loop)
        assert ["search_tools", "mail_send"] == sent(model)[1]
        assert [None, "not-offered"] == [one.error_type for one in ended.results]

    def test_deps_reach_tools_that_were_found(self, registry: ToolRegistry) -> None:
        """What is passed to a loop is passed on to the tools that its searches find."""

        @registry.tool(shared=True)
        def count_sheep(context: ToolContext[dict[str, int]]) -> int:
            """Count the sheep."""
            return context.deps["sheep"]

        model = fake_model(("search_tools", {"query": "sheep"}), ("count_sheep", {}), "Done.")
        loop = ToolLoop(registry.agent("ann"), model, tool_search=ToolSearch(registry))
        assert 3 == loop.run("Go.", deps={"sheep": 3}).results[1].result

    def test_wrong_searches(self, registry: ToolRegistry, run: Run) -> None:
        """What is wrong with a search comes back to the model, and finds nothing."""
        model = fake_model([("search_tools", {}), ("search_tools", {"query": "x", "limit": 21})], "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model, tool_search=ToolSearch(registry)))
        assert ["invalid_arguments"] * 2 == [one.outcome for one in ended.results]
        assert [["search_tools"]] * 2 == sent(model)


class TestGoingOn:
    def test_a_killed_loop_sends_the_same_tools(self, run: Run, tmp_path: Path) -> None:
        """Begun again in another process, it sends what it had found, whatever a search would find by now."""
        requests = []
        for replies in ((LETTERS, KeyboardInterrupt()), ("Done.",)):
            with fill(ToolRegistry(journal=tmp_path / "runs.db")) as registry:
                model = fake_model(*replies)
                loop = ToolLoop(registry.agent("ann"), model, tool_search=ToolSearch(registry))
                if requests:
                    add_tool(registry, "letters", "Send a letter, a letter, a letter.")
                    assert "Done." == run(loop, "Go.", "r").text
                else:
                    with pytest.raises(KeyboardInterrupt):
                        run(loop, "Go.", "r")
                requests += model.requests
        assert (requests[1].tools, requests[1].messages) == (requests[2].tools, requests[2].messages)
        assert ["search_tools", "mail_send"] == names(requests[2].tools)

    def test_another_conversation_goes_on(self, registry: ToolRegistry, run: Run) -> None:
        """What an earlier conversation found is sent in the one that continues it, also once that is resumed."""
        search, ann = ToolSearch(registry), registry.agent("ann")
        first = ToolLoop(ann, fake_model(LETTERS, "Found."), tool_search=search).run("Find it.")
        model = fake_model(KeyboardInterrupt(), MAIL, "Sent.")
        loop = ToolLoop(ann, model, tool_search=search)
        with pytest.raises(KeyboardInterrupt):
            loop.run("Send it.", "r", history=first)
        assert "Sent." == loop.resume("r").text
        assert [["search_tools", "mail_send"]] * 3 == sent(model)


class TestProviders:
    @pytest.mark.parametrize("native", [True, False])
    @pytest.mark.parametrize("api", ["chat", "responses", "messages"])
    def test_through_the_sdk(self, api: str, native: bool, registry: ToolRegistry, run: Run) -> None:
        """
        Each provider is sent what was found in its own way: deferred where it has that, else in the list of tools.
        """
        searched = "tool_search" if native and api == "responses" else "search_tools"
        found, used = (searched, LETTERS[1], "c1"), ("mail_send", {"text": "x"}, "c2")
        script = [{"text": "I look.", "calls": [found]}, {"calls": [used]}, {"text": "Sent."}]
        with ModelServer(script) as server, make_client(api, server.url) as client:
            model = {"chat": OpenAIChat, "responses": OpenAIResponses, "messages": AnthropicMessages}[api](client, "m")
            search = ToolSearch(registry, always=["number_7"], provider_loading=native)
            ended = run(ToolLoop(registry.agent("ann"), model, tool_search=search))
            bodies = server.requests
        assert ("Sent.", ["ok", "ok"]) == (ended.text, [one.outcome for one in ended.results])
        first = [searched, "number_7"]
        if native and api == "responses":
            assert [first] * 3 == [names(body["tools"]) for body in bodies]
            call, output = bodies[2]["input"][3:5]
            assert ("tool_search_call", "client", {"query": "send a letter"}, "c1") == (
                call["type"], call["execution"], call["arguments"], call["call_id"])  # fmt: skip
            assert ("tool_search_output", "client", "c1") == (output["type"], output["execution"], output["call_id"])
            assert [("mail_send", True)] == [(one["name"], one["defer_loading"]) for one in output["tools"]]
            return
        assert [first, [*first, "mail_send"], [*first, "mail_send"]] == [names(body["tools"]) for body in bodies]
        if api == "messages":
            (result,) = bodies[1]["messages"][-1]["content"]
            deferred = [one["name"] for one in bodies[1]["tools"] if one.get("defer_loading")]
            reference = [{"type": "tool_reference", "tool_name": "mail_send"}]
            assert (["mail_send"], reference) == (deferred, result["content"]) if native else not deferred

    @pytest.mark.parametrize("api_format", ["anthropic", "openai-responses"])
    def test_revoked_tools_are_nowhere(self, api_format: str, registry: ToolRegistry) -> None:
        """
        A tool that is taken away is in no list, reference or output of the next request; what is kept stays plain.
        """
        add_tool(registry, "letters", "Send letters.")

        def block(request: Any) -> Any:
            registry.block("mail.send", "ann")
            return ("number_1", {})

        def block_search(request: Any) -> Any:
            registry.block("search_tools", "ann")
            return ("number_1", {})

        model = fake_model(LETTERS, block, block_search, "Done.", api_format=api_format)
        ended = ToolLoop(registry.agent("ann"), model, tool_search=ToolSearch(registry)).run("Go.")
        _, before, after, bare = [str((request.tools, request.messages)) for request in model.requests]
        assert ("mail_send" in before, "mail_send" in after) == (True, False)
        assert "defer_loading" in before and "defer_loading" in after
        assert "defer_loading" not in bare and "tool_reference" not in bare
        assert ["letters"] == names(model.requests[3].tools)
        assert "defer_loading" not in str(ended.messages)


def make_client(api: str, url: str) -> Any:
    """Return the client of an SDK."""
    if api == "messages":
        return sdk("anthropic").Anthropic(api_key="none", base_url=url, timeout=20)
    return sdk("openai").OpenAI(api_key="none", base_url=f"{url}/v1", timeout=20)


class TestMaking:
    def test_one_tool_for_all(self, registry: ToolRegistry) -> None:
        """Any number of searches of a registry share one tool, which reads only, and which agents call like others."""
        first, second = ToolSearch(registry), ToolSearch(registry, always="number_1")
        assert (("number_1",), registry) == (second.always, first.registry)
        assert registry.agent("ann").call("search_tools", query="letter") == [
            {"name": "mail_send", "description": "Send a letter."}
        ]
        assert registry.get_tool("search_tools").metadata.read_only  # type: ignore[union-attr]

    def test_mistakes(self, registry: ToolRegistry) -> None:
        """A misspelled tool, a name that is taken, and a search of another registry are errors that say so."""
        with pytest.raises(UnknownToolError, match="Did you mean 'number_1"):
            ToolSearch(registry, always=["numbr_1"])
        other = ToolRegistry()
        for wrong in (ToolSearch(other), "search", 3):
            with pytest.raises(ToolUsageError, match=r"does not search in .*tool_search=ToolSearch\(registry\)"):
                ToolLoop(registry.agent("ann"), fake_model(), tool_search=wrong)  # type: ignore[arg-type]
        taken = ToolRegistry()
        add_tool(taken, "search_tools", "Another one.")
        with pytest.raises(DuplicateToolError):
            ToolSearch(taken)
