"""`attach`: a Praval agent's chats have exactly the tools that it may call now, decided again at every call."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from praval_chats import (
    WAYS,
    analyst,
    chat,
    copied,
    ended,
    registry,  # noqa: F401
)
from praval_rig import (
    clean,
    fresh,  # noqa: F401
    praval,
    scripted,
)

from praval_tools import AccessWarning, Agent, Tool, ToolRegistry, ToolUsageError, UnknownToolError
from praval_tools.integrations.praval import attach, install, uninstall
from praval_tools.journal.events import AgentToolCall


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
        assert ["3", True, True, True] == [model.received[0], *model.errors[1:4]]
        assert "analyst" in model.received[4] or "count" in model.received[4]
        assert [True, False, False, False] == model.errors[4:]
        assert ["lent b", "8", '{"days":3}'] == model.received[5:]
        assert [
            ("analyst", "count", "ok"), ("analyst", "lend", "forbidden"), ("analyst", "wire", "forbidden"),
            ("analyst", "nope", "unknown_tool"), ("analyst", "count", "forbidden"), ("analyst", "lend", "ok"),
            ("analyst", "made_later", "ok"), ("analyst", "later", "ok"),
        ] == ended(registry)  # fmt: skip

    @pytest.mark.parametrize("way", WAYS)
    def test_arguments_are_checked_here(self, registry: ToolRegistry, way: str) -> None:
        """What nearly fits is repaired, what does not is reported with every problem, and bounds of a grant hold."""
        registry.assign_tool_to_agent("lend", "analyst", where={"book": {"enum": ["Emma"]}})
        model = scripted(
            "script",
            [("count", {"text": "abc", "most": "2"}), ("count", {"txt": "abc"}), ("count", {"text": "a", "_": 1})],
            [("lend", {"book": "Ulysses"}), ("lend", {"book": "Emma"}), ("later", {"days": {}})],
            "done",
        )
        with attach(analyst(), registry) as held:
            chat(SimpleNamespace(_praval_agent=held.theirs), way)

        assert "2" == model.received[0]
        assert "$.txt" in model.received[1] or "txt" in model.received[1]
        assert "book is none of ['Emma']" in model.received[3]
        assert "lent Emma" == model.received[4]
        outcomes = [one[2] for one in ended(registry)]
        assert ["ok", *["invalid_arguments"] * 2, "forbidden", "ok", "invalid_arguments"] == outcomes

    def test_exceptions_of_tools(self, registry: ToolRegistry) -> None:
        """What a tool raises, `SystemExit` among it, is reported to the model as its error, and the chat goes on."""

        @registry.tool("fails", owned_by="analyst")
        def fails(how: str) -> str:
            """Fail."""
            raise SystemExit(3) if how == "exit" else ValueError("no such thing")

        model = scripted("script", [("fails", {"how": "value"}), ("fails", {"how": "exit"})], "done")
        with attach(analyst(), registry) as held:
            assert "done" == held.theirs.chat("go")

        assert "Error: ValueError: no such thing" == model.received[0]
        assert model.received[1].startswith("Error: SystemExit")
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

        assert ["5", "3 words"] == model.received[:2]
        assert "not found" in model.received[2]

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
        assert ["3", "Unknown function: later", "Unknown function: lend"] == model.received[:3]
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

        def converse(name: str) -> None:
            gate.wait()
            agents[name].chat("go")

        threads = [threading.Thread(target=converse, args=(name,)) for name in ran]
        for one in threads:
            one.start()
        gate.wait()
        while any(one.is_alive() for one in threads):
            registry.remove_tool_from_agent("lend", "ann")
            registry.assign_tool_to_agent("lend", "ann")
        for one in threads:
            one.join()

        assert [f"lent {name}" for name in ["bob"] * rounds] == models["bob"].received
        assert {"lent ann"} | {one for one in models["ann"].received if one.startswith("Error: ")} == {
            "lent ann", *models["ann"].received
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
            assert ["3", '{"days":1}'] == model.received
        assert registry.journal is not None
        assert ["night", "night"] == [one.run_id for one in registry.journal.events() if isinstance(one, AgentToolCall)]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["assign", "remove", "block", "unblock", "share", "unshare", "disable", "enable", "transfer"]),
        st.sampled_from(["own", "foreign", "lone"]),
    ),
    max_size=4,
)


class TestAnyHistory:
    @settings(max_examples=40, deadline=None)
    @given(rounds=st.lists(CHANGES, min_size=1, max_size=5))
    def test_what_is_offered_is_what_can_be_called(self, rounds: list[list[tuple[str, str]]]) -> None:
        """Whatever is done between the rounds of a chat: the offer is what `explain` allows, and so is what runs."""
        with clean(), ToolRegistry() as registry:
            for name, owner in (("own", "ann"), ("foreign", "bob"), ("lone", None)):
                registry.register_tool(Tool.from_function(copied(), name=name, owned_by=owner))
            expected: list[tuple[list[str], list[bool]]] = []

            def turn(changes: list[tuple[str, str]]) -> Any:
                def step() -> Any:
                    for change, name in changes:
                        do(registry, change, name)
                    may = {name: registry.explain("ann", name).allowed for name in ("own", "foreign", "lone")}
                    expected.append(([name for name, yes in may.items() if yes], [not yes for yes in may.values()]))
                    return [(name, {"x": 1}) for name in may]

                return step

            model = scripted("script", *(turn(changes) for changes in rounds), "done")
            with attach(praval.Agent("ann", provider="script"), registry) as held:
                held.theirs.chat("go")

        assert [sorted(offer) for offer, _ in expected] == [sorted(one) for one in model.offered[1:]]
        assert [wrong for _, errors in expected for wrong in errors] == model.errors


def do(registry: ToolRegistry, change: str, name: str) -> None:
    """Do one change of the operator that concerns ann and a tool."""
    changes: dict[str, Callable[[], Any]] = {
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
        changes[change]()


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

    def test_an_attached_agent_manages_its_tools_by_name(self, registry: ToolRegistry) -> None:
        """`add_tool`, `remove_tool`, `list_tools` and `tool_exists` speak of what it may call, until it is detached."""
        theirs = analyst()._praval_agent
        with attach(theirs, registry):
            held = theirs.list_tools()
            assert held == list(theirs.tools)
            assert "lend" not in held
            theirs.add_tool("lend")
            assert [*held, "lend"] == sorted(theirs.list_tools(), key=[*held, "lend"].index)
            assert [True, False] == [theirs.tool_exists("lend"), theirs.tool_exists("nope")]
            assert [True, False] == [theirs.remove_tool("lend"), theirs.tool_exists("lend")]
            with pytest.raises(UnknownToolError, match="'lend'"):
                theirs.add_tool("lendd")

        assert not hasattr(theirs, "list_tools")

    def test_uninstalling_while_a_chat_runs(self, registry: ToolRegistry) -> None:
        """The attached agent's chat goes on through the registry that it was attached to."""
        model = scripted("script", lambda: [uninstall(), [("count", {"text": "abc"})]][1], "done")
        install(registry)
        held = attach(analyst())
        assert "done" == held.theirs.chat("go")
        assert ["3"] == model.received
        assert [("analyst", "count", "ok")] == ended(registry)

    def test_detaching_while_a_chat_runs(self, registry: ToolRegistry) -> None:
        """The chat that had begun ends with what the registry decides; the next is plain Praval's."""
        model = scripted(
            "script", lambda: [held.detach(), [("count", {"text": "abc"}), ("wire", {"amount": 1})]][1], "done"
        )
        held = attach(analyst(), registry)
        assert "done" == held.theirs.chat("go")
        assert "3" == model.received[0]
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
            with pytest.raises(ToolUsageError, match="'main'.*detach"):
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
