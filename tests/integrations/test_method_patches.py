"""What each provider of Praval's is offered by an attached agent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from praval_chats import (
    ended,
    registry,  # noqa: F401
)
from praval_rig import (
    Model,
    fresh,  # noqa: F401
    praval,
    scripted,
)

from praval_tools import ToolAccessError, ToolRegistry
from praval_tools.integrations.praval import attach


class TestProviders:
    def test_openai_with_a_scripted_client(self, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """Praval's own OpenAI adapter, over a client that follows a script: revoked, granted and bad calls."""
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        theirs = praval.Agent("analyst", provider="openai", model="gpt-4o")
        sent: list[Any] = []
        steps = iter(
            [[("count", '{"text": "abcd", "most": "3"}')], [("count", '{"text": "a"}'), ("lend", "{}")], "done"]
        )

        def create(**params: Any) -> Any:
            sent.append(params)
            if len(sent) == 2:
                registry.remove_tool_from_agent("count", "analyst")
                registry.assign_tool_to_agent("lend", "analyst")
            step = next(steps)
            calls = [
                SimpleNamespace(
                    id=f"{len(sent)}-{at}", type="function", function=SimpleNamespace(name=name, arguments=given)
                )
                for at, (name, given) in enumerate(step if isinstance(step, list) else [])
            ]
            message = SimpleNamespace(content=step if isinstance(step, str) else None, tool_calls=calls or None)
            return SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason="stop")], usage=None, id="x")

        theirs.provider.client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
        with attach(theirs, registry):
            assert "done" == theirs.chat("go")

        names = [sorted(one["function"]["name"] for one in params["tools"]) for params in sent]
        assert [["count", "later"], ["count", "later"], ["later", "lend"]] == names
        output = [one["content"] for one in sent[-1]["messages"] if one["role"] == "tool"]
        assert "3" == output[0]
        assert ["ok", "forbidden", "invalid_arguments"] == [one[2] for one in ended(registry)]

    def test_gemini_offers_what_is_so_now(self, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """Gemini's adapter, which keeps its first payload, offers in each round what the agent may call then."""
        monkeypatch.setenv("GEMINI_API_KEY", "none")
        theirs = praval.Agent("analyst", provider="gemini")
        sent: list[Any] = []

        def post(method: str, payload: Any, **_: Any) -> Any:
            declared = [one["name"] for tool in payload.get("tools", ()) for one in tool["functionDeclarations"]]
            sent.append(sorted(declared))
            if len(sent) == 1:
                registry.remove_tool_from_agent("later", "analyst")
                registry.assign_tool_to_agent("lend", "analyst")
            part = {"functionCall": {"name": "lend", "args": {"book": "b"}}} if len(sent) < 3 else {"text": "done"}
            if len(sent) == 2:
                for name in ("count", "lend"):
                    registry.remove_tool_from_agent(name, "analyst")
            return {"candidates": [{"content": {"role": "model", "parts": [part]}}]}

        theirs.provider._post_json = post
        with attach(theirs, registry):
            assert "done" == theirs.chat("go")

        assert [["count", "later"], ["count", "lend"], []] == sent

    def test_a_provider_that_runs_tools_itself(self, registry: ToolRegistry) -> None:
        """A provider of the old kind calls `entry["function"]`: it is decided there, and raises what was refused."""
        said: list[Any] = []

        class Old(Model):
            invoke = continue_with_tool_results = None  # type: ignore[assignment]

            def generate(self, messages: Any, tools: Any = None, hitl_context: Any = None) -> str:
                """Call every tool, before and after it was taken away."""
                first = {one["name"]: one["function"] for one in tools}
                said.append(first["count"]("abc", most="2"))
                said.append(first["later"](days=1))
                registry.remove_tool_from_agent("count", "analyst")
                said.append([one["name"] for one in tools])
                with pytest.raises(ToolAccessError):
                    first["count"](text="abc")
                return "done"

        theirs = praval.Agent("analyst", provider=scripted("script") and "script")
        theirs.provider = theirs.runtime.provider = Old()
        with attach(theirs, registry):
            assert "done" == theirs.chat("go")
        assert [2, {"days": 1}, ["later"]] == said
