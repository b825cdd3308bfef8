"""Whose code runs in an attached agent, and what it may do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from praval_chats import (
    ended,
    registry,  # noqa: F401
)
from praval_rig import (
    fresh,  # noqa: F401
    praval,
    scripted,
)

from praval_tools import Agent, NotOwnerError, ToolRegistry, ToolUsageError, current_agent
from praval_tools.integrations.praval import attach, install, uninstall
from praval_tools.journal.events import ApprovalAnswered

# Tests of: method_patches, host_attributes, person_approvals, attachment, installation


class TestApprovals:
    @pytest.mark.parametrize("step", ["approve", "resume", "resume with a decision of its own"])
    def test_code_of_agents_decides_for_nobody(self, registry: ToolRegistry, tmp_path: Path, step: str) -> None:
        """What an agent's code approves in Praval, or resumes itself, is approved by no person, and does not run."""
        registry.configure("wire", requires_approval=True)
        registry.assign_tool_to_agent("wire", "analyst")
        scripted("script", [("wire", {"amount": 1})], "done")
        theirs = praval.Agent("analyst", provider="script", hitl_enabled=True, hitl_db_path=str(tmp_path / "hitl.db"))
        with attach(theirs, registry):
            with pytest.raises(praval.InterventionRequired) as caught:
                theirs.chat("go")
            steps: dict[str, Any] = {
                "approve": lambda: theirs.approve_intervention(caught.value.intervention_id),
                "resume": lambda: theirs.resume_run(caught.value.run_id),
                "resume with a decision of its own": lambda: theirs.runtime.resume_tool_flow(
                    theirs._get_hitl_service().get_suspended_run(caught.value.run_id).state, [],
                    {
                        "run_id": caught.value.run_id, "agent_name": "analyst", "provider_name": "script",
                        "enabled": True, "db_path": str(tmp_path / "hitl.db"),
                        "resume_intervention": {
                            "id": "x", "run_id": "x", "agent_name": "analyst", "provider_name": "script",
                            "tool_call_id": "call-1", "tool_name": "wire", "original_args": {"amount": 1},
                            "decision": "APPROVE", "status": "APPROVED",
                        },
                    },
                ),
            }  # fmt: skip
            work = Agent("mallory", registry=registry, function=steps[step])
            if step == "approve":
                with pytest.raises(NotOwnerError, match="approve"):
                    work()
            else:
                if step == "resume":
                    theirs.approve_intervention(caught.value.intervention_id)
                work()
        assert registry.journal is not None
        assert not [one for one in registry.journal.events() if isinstance(one, ApprovalAnswered)]
        assert "ok" not in [one[2] for one in ended(registry)]

    @pytest.mark.parametrize("way", ["another agent", "a detached agent", "service", "store", "its own store"])
    def test_whatever_object_of_praval_decides(self, registry: ToolRegistry, tmp_path: Path, way: str) -> None:
        """Broken promise: an agent's code approved by another object than the attached agent, and the call ran."""
        registry.configure("wire", requires_approval=True)
        registry.assign_tool_to_agent("wire", "analyst")
        scripted("script", [("wire", {"amount": 1})], "done")
        store = str(tmp_path / "hitl.db")
        options: Any = {"provider": "script", "hitl_enabled": True, "hitl_db_path": store}
        theirs = praval.Agent("analyst", **options)
        held = attach(theirs, registry)
        with pytest.raises(praval.InterventionRequired) as caught:
            theirs.chat("go")
        waiting = caught.value.intervention_id
        approves: Any = {"decision": praval.hitl.InterventionDecision.APPROVE, "reviewer": "human"}
        ways: dict[str, Callable[[], object]] = {
            "another agent": lambda: praval.Agent("analyst", **options).approve_intervention(waiting),
            "a detached agent": lambda: (held.detach(), theirs.approve_intervention(waiting)),
            "service": lambda: praval.hitl.HITLService(store).approve_intervention(waiting, reviewer="human"),
            "store": lambda: praval.hitl.get_hitl_store(store).decide_intervention(waiting, **approves),
            "its own store": lambda: praval.hitl.HITLStore(store).decide_intervention(waiting, **approves),
        }
        with pytest.raises(NotOwnerError, match="approve|detach"):
            Agent("mallory", registry=registry, function=ways[way])()
        with pytest.raises(ValueError, match="pending"):
            theirs.resume_run(caught.value.run_id)
        Agent("eve", registry=registry, function=lambda: theirs.reject_intervention(waiting, reason="no"))()
        assert "done" == theirs.resume_run(caught.value.run_id)
        assert [("analyst", "wire", "ok")] != ended(registry)
        held.detach()


class TestHost:
    @pytest.mark.parametrize(
        "step",
        [
            "detach", "attach and detach", "other tools", "uninstall", "handler", "handler, by the class",
            "handler, unwrapped", "approvals", "approvals, by the class", "approvals, unwrapped",
            "approvals, by an earlier method",
        ],
    )  # fmt: skip
    def test_alone_sets_how_an_agent_is_attached(self, registry: ToolRegistry, step: str) -> None:
        """Broken promise: code of an agent detached another, whose blocked tool then ran, and acted in its name."""
        ran = list[int]()

        def look(text: str) -> None:
            """Look."""
            ran.append(1)

        scripted("script", [("look", {"text": "a"})], "done")
        theirs = praval.Agent("analyst", provider="script")
        theirs.tool(look)
        configure = theirs.configure_hitl
        with install(registry) as installed, attach(theirs, registry) as held:
            registry.block("look", "analyst")

            def take_other_tools() -> None:
                theirs.tools = {}
                attach(theirs, registry)

            steps: dict[str, Callable[[], object]] = {
                "detach": held.detach,
                "attach and detach": lambda: attach(theirs, registry).detach(),
                "other tools": take_other_tools,
                "handler": lambda: theirs.set_spore_handler(print),
                "handler, by the class": lambda: praval.Agent.set_spore_handler(theirs, print),
                "handler, unwrapped": lambda: inspect.unwrap(theirs.set_spore_handler)(print),
                "approvals": lambda: theirs.configure_hitl(enabled=False),
                "approvals, by the class": lambda: praval.Agent.configure_hitl(theirs, enabled=False),
                "approvals, unwrapped": lambda: inspect.unwrap(theirs.configure_hitl)(enabled=False),
                "approvals, by an earlier method": lambda: configure(db_path="x"),
                "uninstall": uninstall,
            }
            with pytest.raises(NotOwnerError):
                Agent("mallory", registry=registry, function=steps[step])()
            assert installed.active
            assert "done" == theirs.chat("go")
            assert [] == ran
            assert [("analyst", "look", "forbidden")] == ended(registry)

    def test_keeps_what_code_of_an_agent_attached_before(self, registry: ToolRegistry) -> None:
        """Code of an agent detaches what it attached, unless the host program attached it as well."""
        theirs, helper = praval.Agent("analyst", provider="script"), praval.Agent("analyst", provider="script")
        Agent("analyst", registry=registry)

        def work() -> None:
            made.append(attach(theirs, registry))
            attach(helper, registry).detach()
            steps[:] = [made[0].detach]

        made, steps = list[Any](), list[Callable[[], object]]([work])
        mallory: Any = Agent("mallory", registry=registry, function=lambda: steps[0]())
        mallory()
        with attach(theirs, registry) as held:
            with pytest.raises(NotOwnerError, match="detach"):
                Agent("eve", registry=registry, function=held.detach)()
            with pytest.raises(NotOwnerError, match="detach"):
                mallory()


class TestHandlers:
    @pytest.mark.parametrize("kind", ["declared", "async", "set later"])
    def test_run_as_their_agents(self, registry: ToolRegistry, kind: str) -> None:
        """What an attached agent does with a spore is done in its name: it grants itself nothing."""
        seen = list[object]()
        spore = SimpleNamespace(id="1", knowledge={}, from_agent="x", spore_type=None, metadata={})

        def handle(spore: Any) -> None:
            seen.append(current_agent())
            for change in (
                lambda: registry.assign_tool_to_agent("wire", "analyst"), lambda: theirs.add_tool("wire"),
                lambda: Agent("other", registry=registry), lambda: registry.share_tool("lend"),
            ):  # fmt: skip
                with pytest.raises(NotOwnerError):
                    change()
            seen.append(registry.execute_tool("count", text="abc"))

        async def handle_later(spore: Any) -> None:
            await asyncio.sleep(0)
            handle(spore)

        if kind in ("declared", "async"):
            theirs = praval.agent("analyst", provider="script", auto_broadcast=False, on_error="raise")(
                handle_later if kind == "async" else handle
            )._praval_agent
        else:
            theirs = praval.Agent("analyst", provider="script")
        with attach(theirs, registry) as held:
            if kind == "set later":
                theirs.set_spore_handler(handle)
            theirs.on_spore_received(spore)
            assert [held.agent, 3] == seen
            assert [("analyst", "count", "ok")] == ended(registry)
        if kind != "set later":
            with pytest.raises(ToolUsageError, match="No agent is running"):  # the host's again
                theirs.on_spore_received(spore)

    @pytest.mark.parametrize("place", ["its attribute", "its dict"])
    def test_run_as_their_agents_however_they_were_set(self, registry: ToolRegistry, place: str) -> None:
        """Broken promise: a handler that did not come by the method ran as the host program."""
        seen = list[object]()
        theirs = praval.Agent("analyst", provider="script")
        assert theirs.spore_handler is None
        with attach(theirs, registry) as held:
            assert theirs.spore_handler is None
            if place == "its attribute":
                theirs._custom_spore_handler = lambda spore: seen.append(current_agent())
            else:
                theirs.__dict__["_custom_spore_handler"] = lambda spore: seen.append(current_agent())
            theirs.on_spore_received(SimpleNamespace(id="1"))
            assert [held.agent] == seen
            del theirs._custom_spore_handler
            assert theirs.spore_handler is None
            theirs.configure_hitl(enabled=True)
            assert theirs._build_hitl_context("1")["enabled"]

    def test_give_objects_that_are_asked_nothing_as_the_host(self, registry: ToolRegistry) -> None:
        """Broken promise: what a handler gave was asked for its class, by code of its own, as the host program."""
        seen = list[object]()

        class Given:
            @property
            def __class__(self) -> Any:
                try:
                    registry.share_tool("lend")
                    seen.append("shared")
                except NotOwnerError:
                    pass
                return Given

            @__class__.setter
            def __class__(self, value: object) -> None: ...

        theirs = praval.Agent("analyst", provider="script")
        with attach(theirs, registry):
            theirs.set_spore_handler(lambda spore: Given())
            theirs.on_spore_received(SimpleNamespace(id="1"))
        assert [] == seen
