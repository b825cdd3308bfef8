"""Whose code runs in an attached agent, and what it may do."""

from __future__ import annotations

import asyncio
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
from praval_tools.integrations.praval import attach
from praval_tools.journal.events import ApprovalAnswered

# Tests of: method_patches


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
