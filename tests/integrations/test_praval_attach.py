"""`attach`: a Praval agent's chats have exactly the tools that it may call now, decided again at every call."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from praval_rig import Model, clean, fresh, praval, scripted  # noqa: F401

from praval_tools import AccessWarning, Agent, Allow, Ask, Deny, Tool, ToolAccessError, ToolRegistry, ToolUsageError
from praval_tools.integrations.praval import attach, install, uninstall
from praval_tools.journal.events import AgentToolCall, AgentToolResult, ApprovalAnswered, CallRefused
from praval_tools.names import to_wire_name

HOME = Path(__file__).parents[1] / "support"


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A journaled registry with tools of several owners."""
    with ToolRegistry(name="house", journal="memory") as made:

        @made.tool("count", owned_by="analyst")
        def count(text: str, most: int = 100) -> int:
            """Count letters."""
            return min(len(text), most)

        @made.tool("lend", owned_by="librarian")
        def lend(book: str) -> str:
            """Lend a book."""
            return f"lent {book}"

        @made.tool("wire", owned_by="treasurer")
        def wire(amount: float) -> str:
            """Send money."""
            raise AssertionError(f"sent {amount}")

        @made.tool("later", owned_by="analyst")
        async def later(days: int) -> dict[str, int]:
            """Wait."""
            await asyncio.sleep(0)
            return {"days": days}

        yield made


def analyst(**options: Any) -> Any:
    """Return a decorated Praval agent whose model is `script`."""

    @praval.agent("analyst", provider="script", **options)
    def work(spore: Any) -> Any:
        """Work."""
        return {"said": praval.chat("go")}

    return work


def copied() -> Any:
    """Return a function of its own."""

    def work(x: int) -> int:
        """Work."""
        return x

    return work


def ended(registry: ToolRegistry) -> list[tuple[str | None, str, str]]:
    """Return agent, tool and outcome of every call that the journal holds."""
    assert registry.journal is not None
    return [
        (one.agent, one.tool_name, str(one.outcome))
        for one in registry.journal.events()
        if isinstance(one, AgentToolResult | CallRefused)
    ]


def chat(agent: Any, way: str = "chat") -> str:
    """Let an agent chat in one of Praval's ways, and return what its model says in the end."""
    inner = agent._praval_agent
    if way == "chat":
        return str(inner.chat("go"))
    if way == "generate":
        return str(inner.generate("go").content)
    if way == "agenerate":
        return str(asyncio.run(inner.agenerate("go")).content)
    if way == "stream":
        return str([one for one in inner.stream("go") if one.type == "final"][0].response.content)
    if way == "astream":

        async def gather() -> list[Any]:
            return [one async for one in inner.astream("go")]

        return str(asyncio.run(gather())[-1].response.content)
    if way == "chat in a loop":

        async def inside() -> str:
            return str(inner.chat("go"))

        return asyncio.run(inside())

    @praval.agent(f"{inner.name}-caller", provider="script", auto_broadcast=False)
    async def handler(spore: Any) -> None:
        """Chat."""

    async def achat() -> str:
        from praval import decorators

        decorators._agent_context.agent = inner
        return str(await decorators.achat("go"))

    assert way == "achat"
    return asyncio.run(achat())


WAYS = ["chat", "generate", "agenerate", "stream", "astream", "achat", "chat in a loop"]


class TestRounds:
    @pytest.mark.parametrize("way", WAYS)
    def test_changes_count_in_the_next_round(self, registry: ToolRegistry, way: str) -> None:
        """
        While a chat runs, a revoked and a forbidden tool are refused, a granted and a new one are offered and run.

        The model calls each of them regardless of what it was offered; each call is in the journal with its agent.
        """

        def change() -> None:
            registry.remove_tool_from_agent("count", "analyst")
            registry.assign_tool_to_agent("lend", "analyst")
            registry.register_tool(Tool.from_function(later_made, name="made_later", owned_by="analyst"))

        def later_made(x: int) -> int:
            """Made later."""
            return x * 2

        model = scripted(
            "script",
            [("count", {"text": "abc"}), ("lend", {"book": "b"}), ("wire", {"amount": 1}), ("nope", {})],
            lambda: [change(), [("count", {"text": "abc"}), ("lend", {"book": "b"})]][1],
            [("made_later", {"x": 4}), ("later", {"days": "3"})],
            "done",
        )
        with attach(analyst(), registry) as held:
            assert "done" == chat(SimpleNamespace(_praval_agent=held.theirs), way)

        first, after = ["count", "later"], ["later", "lend", "made_later"]
        assert first == sorted(model.offered[0])
        assert [first, after, after] == [sorted(one) for one in model.offered[1:]]
        assert ["3", True, True, True] == [model.told[0], *model.errors[1:4]]
        assert "analyst" in model.told[4] or "count" in model.told[4]
        assert [True, False, False, False] == model.errors[4:]
        assert ["lent b", "8", '{"days":3}'] == model.told[5:]
        assert [
            ("analyst", "count", "ok"), ("analyst", "lend", "forbidden"), ("analyst", "wire", "forbidden"),
            ("analyst", "nope", "unknown_tool"), ("analyst", "count", "forbidden"), ("analyst", "lend", "ok"),
            ("analyst", "made_later", "ok"), ("analyst", "later", "ok"),
        ] == ended(registry)  # fmt: skip

    @pytest.mark.parametrize("way", WAYS)
    def test_arguments_are_checked_here(self, registry: ToolRegistry, way: str) -> None:
        """What nearly fits is repaired, what does not is told with every problem, and bounds of a grant hold."""
        registry.assign_tool_to_agent("lend", "analyst", where={"book": {"enum": ["Emma"]}})
        model = scripted(
            "script",
            [("count", {"text": "abc", "most": "2"}), ("count", {"txt": "abc"}), ("count", {"text": "a", "_": 1})],
            [("lend", {"book": "Ulysses"}), ("lend", {"book": "Emma"}), ("later", {"days": {}})],
            "done",
        )
        with attach(analyst(), registry) as held:
            chat(SimpleNamespace(_praval_agent=held.theirs), way)

        assert "2" == model.told[0]
        assert "$.txt" in model.told[1] or "txt" in model.told[1]
        assert "book is none of ['Emma']" in model.told[3]
        assert "lent Emma" == model.told[4]
        outcomes = [one[2] for one in ended(registry)]
        assert ["ok", *["invalid_arguments"] * 2, "forbidden", "ok", "invalid_arguments"] == outcomes

    def test_exceptions_of_tools(self, registry: ToolRegistry) -> None:
        """What a tool raises, `SystemExit` among it, is told to the model as its error, and the chat goes on."""

        @registry.tool("fails", owned_by="analyst")
        def fails(how: str) -> str:
            """Fail."""
            raise SystemExit(3) if how == "exit" else ValueError("no such thing")

        model = scripted("script", [("fails", {"how": "value"}), ("fails", {"how": "exit"})], "done")
        with attach(analyst(), registry) as held:
            assert "done" == held.theirs.chat("go")

        assert "Error: ValueError: no such thing" == model.told[0]
        assert model.told[1].startswith("Error: SystemExit")
        assert [True, True] == model.errors

    def test_tools_that_are_declared_again(self, registry: ToolRegistry) -> None:
        """A tool that is replaced, or taken out, while a chat runs is the new one, or gone, in the next round."""

        def count(text: str) -> str:
            """Count words."""
            return f"{len(text.split())} words"

        def replaced() -> Any:
            registry.register_tool(Tool.from_function(count, name="count", owned_by="analyst"), replace=True)
            return [("count", {"text": "a b c"})]

        def again() -> Any:
            registry.unregister_tool("count")
            return [("count", {"text": "a"})]

        model = scripted("script", [("count", {"text": "a b c"})], replaced, again, "done")
        with attach(analyst(), registry) as held:
            held.theirs.chat("go")

        assert ["5", "3 words"] == model.told[:2]
        assert "not found" in model.told[2]

    def test_narrowed_chats_stay_narrow(self, registry: ToolRegistry) -> None:
        """`allowed_tool_names` holds for the whole chat; what it names can be taken away, and nothing comes to it."""

        def change() -> None:
            registry.assign_tool_to_agent("lend", "analyst")
            registry.remove_tool_from_agent("count", "analyst")

        model = scripted(
            "script", [("count", {"text": "abc"}), ("later", {"days": 1})],
            lambda: [change(), [("lend", {"book": "b"}), ("count", {"text": "abc"})]][1], "done",
        )  # fmt: skip
        with attach(analyst(), registry) as held:
            held.theirs.chat("go", allowed_tool_names=["count"])
            with pytest.raises(ValueError, match="Unknown allowed tools"):
                held.theirs.chat("go", allowed_tool_names=["wire"])

        assert [["count"], ["count"], []] == model.offered
        assert ["3", "Unknown function: later", "Unknown function: lend"] == model.told[:3]
        assert [False, True, True, True] == model.errors

    def test_two_chats_while_grants_change(self, registry: ToolRegistry) -> None:
        """Two threads chat with two agents while a third gives and takes: no call of a tool that was not given then."""
        rounds, ran = 60, {"ann": 0, "bob": 0}
        for name in ran:
            registry.assign_tool_to_agent("lend", name)
        agents, models, gate = {}, {}, threading.Barrier(3)
        for name in ran:
            models[name] = scripted(f"script-{name}", *[[("lend", {"book": name})]] * rounds, "done")
            agents[name] = praval.Agent(name, provider=f"script-{name}", config={"max_tool_rounds": rounds + 1})
            attach(agents[name], registry)

        def talk(name: str) -> None:
            gate.wait()
            agents[name].chat("go")

        threads = [threading.Thread(target=talk, args=(name,)) for name in ran]
        for one in threads:
            one.start()
        gate.wait()
        while any(one.is_alive() for one in threads):
            registry.remove_tool_from_agent("lend", "ann")
            registry.assign_tool_to_agent("lend", "ann")
        for one in threads:
            one.join()

        assert [f"lent {name}" for name in ["bob"] * rounds] == models["bob"].told
        assert {"lent ann"} | {one for one in models["ann"].told if one.startswith("Error: ")} == {
            "lent ann", *models["ann"].told
        }  # fmt: skip
        assert 2 * rounds == len(ended(registry))
        assert {"ann", "bob"} == {one[0] for one in ended(registry)}

    @pytest.mark.parametrize("way", ["chat", "agenerate", "chat in a loop"])
    def test_the_context_of_a_run_reaches_the_tool(self, registry: ToolRegistry, way: str) -> None:
        """A chat inside of a journaled run belongs to the run, and a second time its calls are answered from it."""
        for _ in range(2):
            model = scripted("script", [("count", {"text": "abc"}), ("later", {"days": 1})], "done")
            with attach(praval.Agent("analyst", provider="script"), registry) as held, registry.run("night"):
                chat(SimpleNamespace(_praval_agent=held.theirs), way)
            assert ["3", '{"days":1}'] == model.told
        assert registry.journal is not None
        assert ["night", "night"] == [one.run_id for one in registry.journal.events() if isinstance(one, AgentToolCall)]


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["assign", "remove", "block", "unblock", "share", "unshare", "disable", "enable", "transfer"]),
        st.sampled_from(["own", "foreign", "lone"]),
    ),
    max_size=4,
)


class TestAnyHistory:
    @settings(max_examples=40, deadline=None)
    @given(rounds=st.lists(ACTS, min_size=1, max_size=5))
    def test_what_is_offered_is_what_can_be_called(self, rounds: list[list[tuple[str, str]]]) -> None:
        """Whatever is done between the rounds of a chat: the offer is what `explain` allows, and so is what runs."""
        with clean(), ToolRegistry() as registry:
            for name, owner in (("own", "ann"), ("foreign", "bob"), ("lone", None)):
                registry.register_tool(Tool.from_function(copied(), name=name, owned_by=owner))
            expected: list[tuple[list[str], list[bool]]] = []

            def turn(acts: list[tuple[str, str]]) -> Any:
                def step() -> Any:
                    for act, name in acts:
                        do(registry, act, name)
                    may = {name: registry.explain("ann", name).allowed for name in ("own", "foreign", "lone")}
                    expected.append(([name for name, yes in may.items() if yes], [not yes for yes in may.values()]))
                    return [(name, {"x": 1}) for name in may]

                return step

            model = scripted("script", *(turn(acts) for acts in rounds), "done")
            with attach(praval.Agent("ann", provider="script"), registry) as held:
                held.theirs.chat("go")

        assert [sorted(offer) for offer, _ in expected] == [sorted(one) for one in model.offered[1:]]
        assert [wrong for _, errors in expected for wrong in errors] == model.errors


def do(registry: ToolRegistry, act: str, name: str) -> None:
    """Do one act of the operator that concerns ann and a tool."""
    acts: dict[str, Callable[[], Any]] = {
        "assign": lambda: registry.assign_tool_to_agent(name, "ann"),
        "remove": lambda: registry.remove_tool_from_agent(name, "ann"),
        "block": lambda: registry.block(name, "ann"),
        "unblock": lambda: registry.unblock(name, "ann"),
        "share": lambda: registry.share_tool(name),
        "unshare": lambda: registry.unshare_tool(name),
        "disable": lambda: registry.disable(name),
        "enable": lambda: registry.enable(name),
        "transfer": lambda: registry.transfer_ownership(name, "bob"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccessWarning)  # assigning what is blocked
        acts[act]()


class TestNames:
    def test_equal_function_names_do_not_mix(self) -> None:
        """Two tools whose functions have one name: each call reaches the tool that it names, for any hash seed."""
        program = (HOME / "praval_same_names.py").read_text()
        said = {
            subprocess.run(
                [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True,
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HOME)},
            ).stdout
            for seed in ("0", "1", "2")
        }  # fmt: skip

        assert {"['first_run', 'second_run', 'third_run'] ['first', 'second', 'third']\n"} == said

    def test_names_that_are_not_legal_here(self, registry: ToolRegistry) -> None:
        """Tools and agents with spaces, dots and colons work; the agent's dictionary has the names as declared."""
        with install(registry):

            @praval.tool("my tool.v2", owned_by="a:b c")
            def run(x: int) -> int:
                """Run."""
                return x + 1

            @praval.agent("a:b c", provider="script")
            def work(spore: Any) -> None:
                """Work."""

            held = attach(work)
            wire = to_wire_name(registry.get_tools_for_agent(held.agent.name)[0].name)
            model = scripted("script", [(wire, {"x": 1}), ("my tool.v2", {"x": 1})], "done")
            held.theirs.provider = held.theirs.runtime.provider = model
            work._praval_agent.chat("go")

            assert ["my tool.v2"] == work.list_tools()
            assert work.has_tool("my tool.v2")
            assert "2" == model.told[0]
            assert [[wire], [wire]] == model.offered
            assert [(held.agent.name, "ok"), (held.agent.name, "unknown_tool")] == [
                (one[0], one[2]) for one in ended(registry)
            ]

    def test_a_namespace_travels_with_an_underscore(self, registry: ToolRegistry) -> None:
        """A dot is no letter of providers: the wire name is offered, and a call under it finds the tool."""

        @registry.tool("math.add", owned_by="analyst")
        def add(x: int, y: int) -> int:
            """Add."""
            return x + y

        model = scripted("script", [("math_add", {"x": 1, "y": 2})], "done")
        with attach(analyst(), registry) as held:
            held.theirs.chat("go")
            assert "math.add" in held.theirs.tools
        assert ["3"] == model.told

    def test_under_every_formatter_of_praval(self, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """OpenAI's two, Anthropic's, both of Cohere's and Gemini's adapters offer the registered names and schemas."""

        @registry.tool("books.find", owned_by="analyst")
        def anything(title: str, year: int | None = None) -> str:
            """Find a book."""
            return title

        for name in ("OPENAI", "ANTHROPIC", "COHERE", "GEMINI", "OPENROUTER"):
            monkeypatch.setenv(f"{name}_API_KEY", "none")
        expected = {"books_find", "count", "later"}
        for at, (provider, model) in enumerate(
            [("openai", "gpt-4o"), ("anthropic", None), ("cohere", None), ("gemini", None), ("openrouter", "a/b")]
        ):
            theirs = praval.Agent("analyst", provider=provider, model=model)
            with attach(theirs, registry):
                entries = list(theirs.tools.values())
                request = theirs.runtime._build_request(
                    messages=[], tools=theirs._runtime_call_options({}, entry_point="chat").tools, hitl_context=None
                )
                for offered in formatted(theirs.provider, entries, request):
                    assert expected == set(offered), (at, provider)
                    assert {"title", "year"} == set(offered["books_find"]["properties"]), provider
            theirs.close()


def formatted(provider: Any, entries: list[Any], request: Any) -> Iterator[dict[str, Any]]:
    """Yield the names and schemas that each formatter of a provider makes of entries and specs."""

    def read(one: Any) -> tuple[str, Any]:
        one = one.get("function", one) if isinstance(one, dict) else one
        schema = one.get("parameters") or one.get("input_schema") or one.get("parametersJsonSchema")
        return one["name"], schema or {"properties": one.get("parameter_definitions") or {}}

    for name in (
        "_format_tools_for_openai", "_format_tools_for_anthropic", "_format_tools_for_cohere", "_format_tools",
        "_format_tool_specs_for_openai", "_format_tool_specs_for_responses", "_format_tool_specs_for_anthropic",
        "_format_tool_specs_for_cohere",
    ):  # fmt: skip
        made: Callable[..., Any] | None = getattr(provider, name, None)
        if made is not None:
            yield dict(read(one) for one in made(request.tools if "specs" in name else entries))


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
        told = [one["content"] for one in sent[-1]["messages"] if one["role"] == "tool"]
        assert "3" == told[0]
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


class TestApproval:
    @pytest.mark.parametrize("asynchronous", [False, True])
    @pytest.mark.parametrize("answer", ["approve", "edit", "reject", "revoked meanwhile"])
    def test_a_person_is_asked_by_praval(
        self, registry: ToolRegistry, tmp_path: Path, answer: str, asynchronous: bool
    ) -> None:
        """
        An approval that is tightened while the chat runs suspends it; Praval's answer counts here, and once.

        What was revoked while the person thought is refused, whatever the answer.
        """
        sent = []

        @registry.tool("send", owned_by="analyst", risk_level="high")
        def send(amount: int) -> str:
            """Send."""
            sent.append(amount)
            return f"sent {amount}"

        def tighten() -> None:
            registry.configure("send", requires_approval=True, approval_reason="it is money")

        model = scripted(
            "script", [("send", {"amount": 1})], lambda: [tighten(), [("send", {"amount": 2})]][1],
            lambda: [registry.configure("send", requires_approval=False), [("send", {"amount": 3})]][1], "done",
        )  # fmt: skip
        theirs = praval.Agent("analyst", provider="script", hitl_enabled=True, hitl_db_path=str(tmp_path / "hitl.db"))
        with attach(theirs, registry):
            with pytest.raises(praval.InterventionRequired) as caught:
                theirs.chat("go")
            assert [1] == sent
            assert "it is money" == caught.value.reason
            waiting = theirs.get_pending_interventions()[0]
            assert ("send", {"amount": 2}, "high") == (waiting.tool_name, waiting.original_args, waiting.risk_level)
            if answer == "reject":
                theirs.reject_intervention(waiting.id, reason="too much")
            else:
                theirs.approve_intervention(waiting.id, edited_args={"amount": 5} if answer == "edit" else None)
            if answer == "revoked meanwhile":
                registry.block("send", "analyst")
            if asynchronous:
                assert "done" == asyncio.run(theirs.aresume_run(caught.value.run_id))
            else:
                assert "done" == theirs.resume_run(caught.value.run_id)

        assert registry.journal is not None
        answered = [one for one in registry.journal.events() if isinstance(one, ApprovalAnswered)]
        expected = {"approve": [1, 2, 3], "edit": [1, 5, 3], "reject": [1, 3], "revoked meanwhile": [1]}[answer]
        assert expected == sent
        assert (["Praval"] if answer in ("approve", "edit") else []) == [one.by for one in answered]
        assert (answer == "reject") == ("too much" in model.told[1])

    def test_nobody_to_ask(self, registry: ToolRegistry) -> None:
        """Without HITL a tool that needs an approval ends the chat, as in Praval; the registry's handler is asked."""
        registry.configure("count", requires_approval=True)
        scripted("script", [("count", {"text": "abc"})], "done")
        with attach(analyst(), registry) as held, pytest.raises(praval.HITLConfigurationError, match="hitl=False"):
            held.theirs.chat("go")

        asked: list[Any] = []
        registry.set_approval_handler(
            lambda one: asked.append(one.arguments) or (Allow() if len(asked) == 1 else Deny())
        )
        model = scripted("script", [("count", {"text": "abc"}), ("count", {"text": "xyz"})], "done")
        with attach(praval.Agent("analyst", provider="script"), registry) as held:
            held.theirs.chat("go")
        assert ["abc", "xyz"] == [one["text"] for one in asked]
        assert "3" == model.told[0]
        assert "denied" in model.told[1]

    def test_a_policy_that_asks(self, registry: ToolRegistry) -> None:
        """What only a policy wants approved was put before nobody in Praval: it waits in the registry, and runs not."""
        registry.add_policy(lambda agent, tool, arguments: Ask("odd") if len(arguments["text"]) == 3 else None)
        model = scripted("script", [("count", {"text": "abc"}), ("count", {"text": "ab"})], "done")
        theirs = praval.Agent("analyst", provider="script", hitl_enabled=True)
        with attach(theirs, registry):
            theirs.chat("go")
        assert "needs an approval (odd)" in model.told[0]
        assert "2" == model.told[1]
        assert ["count"] == [one.tool for one in registry.approvals.pending()]

    @pytest.mark.parametrize("hitl", [False, True])
    def test_nobody_is_asked_about_what_is_forbidden(self, registry: ToolRegistry, hitl: bool) -> None:
        """A tool that the agent may not call is refused at once, also where it would need an approval."""
        registry.configure("wire", requires_approval=True)
        model = scripted("script", [("wire", {"amount": 1})], "done")
        with attach(praval.Agent("analyst", provider="script", hitl_enabled=hitl), registry) as held:
            assert "done" == held.theirs.chat("go")
        assert [True] == model.errors
        assert [("analyst", "wire", "forbidden")] == ended(registry)

    def test_no_yes_without_a_person(self, registry: ToolRegistry) -> None:
        """Calling the function of an entry, or the runtime without a HITL context, approves nothing."""
        registry.configure("count", requires_approval=True)
        model = scripted("script", [("count", {"text": "abc"})], "done")
        theirs = praval.Agent("analyst", provider="script", hitl_enabled=True)
        with attach(theirs, registry):
            with pytest.raises(Exception, match="needs an approval"):
                theirs.tools["count"]["function"](text="abc")
            options = theirs._runtime_call_options({}, entry_point="chat")
            theirs.runtime.invoke(messages=[{"role": "user", "content": "go"}], tools=options.tools)
        assert "needs an approval" in model.told[0]
        assert ["approval_required", "approval_required"] == [one[2] for one in ended(registry)]


class TestAgentsOwnTools:
    def test_what_an_agent_has_stays_its_own(self, registry: ToolRegistry) -> None:
        """`agent.tool`, `add_tool_spec` and `tools=[…]` from before and after are called through the registry."""

        def listed(x: int) -> int:
            """Listed."""
            return x + 10

        work = analyst(tools=[listed])
        theirs = work._praval_agent

        @work.tool
        def before(x: int) -> int:
            """Before."""
            return x + 1

        async def remote(**given: Any) -> Any:
            return praval.ToolResult(tool_call_id="", name="remote", content=f"remote {given}", is_error=False)

        schema = {"type": "object", "properties": {"q": {"type": "integer"}}, "required": ["q"]}
        theirs.add_tool_spec(praval.ToolSpec(name="remote", description="Far.", parameters=schema), remote)
        model = scripted(
            "script", [("listed", {"x": 1}), ("before", {"x": "1"}), ("remote", {"q": "7"}), ("remote", {})],
            [("after", {"x": 1}), ("spec", {"q": 1})], "done",
        )  # fmt: skip
        theirs.provider = theirs.runtime.provider = model
        held = attach(work, registry)

        @work.tool
        def after(x: int) -> int:
            """After."""
            return x + 2

        theirs.add_tool_spec(praval.ToolSpec(name="spec", description="New.", parameters=schema), lambda q: q * 3)
        with pytest.raises(ValueError, match="already registered"):
            theirs.add_tool_spec(praval.ToolSpec(name="spec", parameters=schema), lambda q: q)
        theirs.chat("go")

        assert "breaking-change" not in [one.kind for one in registry.problems()]
        assert ["11", "2", "remote {'q': 7}"] == model.told[:3]
        assert [False, False, False, True, False, False] == model.errors
        assert ["3", "3"] == model.told[4:]
        assert {"analyst"} == {one[0] for one in ended(registry)}

        def redeclared() -> Any:
            def after(x: int) -> int:
                """After, again."""
                return x + 5

            return after

        work.tool(again := redeclared())
        assert 6 == held.agent.call("after", x=1)
        assert "analyst" == registry.get_tool("after").metadata.owned_by  # type: ignore[union-attr]
        held.detach()
        assert ["after", "before", "listed", "remote", "spec"] == sorted(theirs.tools)
        assert again is theirs.tools["after"]["function"]

    def test_an_async_only_tool(self, registry: ToolRegistry) -> None:
        """A tool of an MCP server runs on the caller's loop under `agenerate`, and is refused under `chat`."""
        loops = []

        async def remote(**given: Any) -> Any:
            loops.append(asyncio.get_running_loop())
            return "there"

        schema = {"type": "object", "properties": {}}
        theirs = praval.Agent("analyst", provider=scripted("script", [("far__away", {})], "done") and "script")
        theirs.add_tool_spec(praval.ToolSpec(name="far__away", parameters=schema), remote, async_only=True)

        async def main() -> None:
            with attach(theirs, registry):
                await theirs.agenerate("go")
                assert [asyncio.get_running_loop()] == loops
                theirs.provider = theirs.runtime.provider = Model([("far__away", {})], "done")
                with pytest.raises(praval.ProviderError, match="async-only"):
                    theirs.chat("go")

        asyncio.run(main())

    def test_two_agents_with_one_name_for_a_tool(self, registry: ToolRegistry) -> None:
        """Each agent's own `run` stays its own: the second gets a name of its own, or what the policy says."""
        agents = [praval.Agent(name, provider=scripted("script") and "script") for name in ("ann", "bob")]
        for at, one in enumerate(agents):

            def run(x: int, at: int = at) -> str:
                """Run."""
                return f"{at}: {x}"

            one.tool(run)
        first, second = (attach(one, registry) for one in agents)

        assert ["run"] == list(agents[0].tools)
        assert ["bob-run"] == list(agents[1].tools)
        assert ("0: 1", "1: 1") == (first.agent.call("run", x=1), second.agent.call("bob-run", x=1))
        assert ["renamed"] == [one.done for one in second.migration.moved]
        second.detach()
        with pytest.raises(Exception, match="'error', 'rename'"):
            attach(agents[1], ToolRegistry(), collisions="sometimes")  # type: ignore[arg-type]
        assert "run" in agents[1].tools

    def test_a_right_that_is_gone_is_not_given_back(self, registry: ToolRegistry) -> None:
        """An agent's stale copy of a tool is no permission: what was revoked before `attach` stays revoked."""
        with install(registry):
            grant = registry.grant("lend", "analyst")
            registry.share_tool("wire")
            work = analyst()
            assert {"count", "later", "lend", "wire"} == set(work.list_tools())
            registry.revoke(grant)
            registry.unshare_tool("wire")
            registry.remove_tool_from_agent("later", "analyst")
            assert {"count", "later", "lend", "wire"} == set(work.list_tools()), "plain Praval keeps its copies"

            with attach(work):
                assert ["count"] == work.list_tools()

    def test_entries_are_read_from_the_registry(self, registry: ToolRegistry) -> None:
        """An entry refuses changes, which would be lost; deleting one takes the tool from the agent."""
        theirs = praval.Agent("analyst", provider=scripted("script") and "script")
        with attach(theirs, registry):
            with pytest.raises(TypeError, match="registry.configure"):
                theirs.tools["count"]["requires_approval"] = True
            with pytest.raises(TypeError, match="registry.configure"):
                theirs.tools["count"].update(requires_approval=True)
            with pytest.raises(ToolUsageError, match="function"):
                theirs.tools["odd"] = {}
            del theirs.tools["count"]
            assert not registry.explain("analyst", "count").allowed
            assert ["later"] == list(theirs.tools)
            with pytest.raises(KeyError):
                theirs.tools["count"]


class TestBeginAndEnd:
    def test_detaching_restores_exactly(self, registry: ToolRegistry) -> None:
        """The very dictionary, methods and behaviour from before are back."""
        work = analyst()
        theirs = work._praval_agent
        tools, own, runtime = theirs.tools, dict(vars(theirs)), dict(vars(theirs.runtime))

        held = attach(work, registry)
        assert held is attach(theirs, registry)
        held.detach()
        held.detach()

        assert tools is theirs.tools
        assert (own, runtime) == (vars(theirs), vars(theirs.runtime))

    def test_uninstalling_while_a_chat_runs(self, registry: ToolRegistry) -> None:
        """The attached agent's chat goes on through the registry that it was attached to."""
        model = scripted("script", lambda: [uninstall(), [("count", {"text": "abc"})]][1], "done")
        install(registry)
        held = attach(analyst())
        assert "done" == held.theirs.chat("go")
        assert ["3"] == model.told
        assert [("analyst", "count", "ok")] == ended(registry)

    def test_detaching_while_a_chat_runs(self, registry: ToolRegistry) -> None:
        """The chat that had begun ends with what the registry decides; the next is plain Praval's."""
        model = scripted(
            "script", lambda: [held.detach(), [("count", {"text": "abc"}), ("wire", {"amount": 1})]][1], "done"
        )
        held = attach(analyst(), registry)
        assert "done" == held.theirs.chat("go")
        assert "3" == model.told[0]
        assert model.errors[1]

    def test_two_threads_attach_one_agent(self, registry: ToolRegistry) -> None:
        """One attachment comes of it, and detaching it restores the agent."""
        theirs = praval.Agent("analyst", provider="script")
        before, own, gate = theirs.tools, dict(vars(theirs.runtime)), threading.Barrier(4)
        made: list[Any] = []

        def work() -> None:
            gate.wait()
            made.append(attach(theirs, registry))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert {id(made[0])} == {id(one) for one in made}
        made[0].detach()
        assert before is theirs.tools
        assert own == vars(theirs.runtime)

    def test_what_was_revoked_stays_revoked_at_the_next_start(self, tmp_path: Path) -> None:
        """The program that lists a tool in its code does not bring back what the operator took, after a restart."""
        seen = []
        for start in range(3):
            with clean(), ToolRegistry(journal=tmp_path / "runs.db") as registry:
                praval.tool("listed")(copied())
                praval.tool("owned", owned_by="analyst")(copied())
                work = analyst(tools=["listed"])
                with attach(work, registry):
                    seen.append(work.list_tools())
                    if start == 0:
                        registry.remove_tool_from_agent("listed", "analyst")
                        registry.remove_tool_from_agent("owned", "analyst")
        assert [["listed", "owned"], [], []] == seen

    def test_two_registries(self, registry: ToolRegistry) -> None:
        """An agent is attached to one registry at a time, and agents of two registries stay apart."""
        other = ToolRegistry(name="other")
        work = analyst()
        with attach(work, registry):
            with pytest.raises(ToolUsageError, match="'house'.*detach"):
                attach(work, other)
        with attach(work, other):
            assert [] == work.list_tools()

    def test_a_declared_agent_keeps_its_profile(self, registry: ToolRegistry) -> None:
        """Where the agent is declared here, its list and categories count; else it has those of the default."""
        mine = Agent("analyst", tools=["lend"], auto_discover_tools=False, registry=registry)
        with attach(analyst(), registry) as held:
            assert mine == held.agent
            assert ["lend"] == list(held.theirs.tools)
        stranger = praval.Agent("librarian", provider="script")
        with attach(stranger, registry, auto_discover_tools=False):
            assert [] == list(stranger.tools)

    def test_what_is_no_agent(self, registry: ToolRegistry) -> None:
        """Anything but an agent of Praval's is a `TypeError`."""
        with pytest.raises(TypeError, match="agent of Praval"):
            attach(print, registry)

    def test_another_praval(self, registry: ToolRegistry) -> None:
        """A Praval without the places that `attach` needs is refused by name, and nothing is changed."""
        theirs = praval.Agent("analyst", provider=scripted("script") and "script")
        theirs.runtime._call_provider = None
        with pytest.raises(ToolUsageError, match=r"_call_provider.*0\.8\.4"):
            attach(theirs, registry)
        assert isinstance(theirs.tools, dict)
        assert "_build_request" not in vars(theirs.runtime)
