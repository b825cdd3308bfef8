# Tests of: integrations/openai_agents
"""What the operator answers in the registry counts for the run of the OpenAI Agents SDK that waits, and no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from framework_contract import ModelCall, Script, script

pytest.importorskip("agents")

from agents import Agent as SdkAgent
from agents import Runner
from framework_openai_agents import RUN_CONFIG, make_model

from praval_tools import Allow, Deny, ToolRegistry
from praval_tools.integrations.openai_agents import RegistryAgent, tools_for

JOURNALS = [None, "memory", "runs.db"]
CALL = ModelCall("pay", {"amount": 3})


def make_registry(journal: str | None, paid: list[int]) -> ToolRegistry:
    """Return a registry in which a clerk may pay, if a person approves it."""
    registry = ToolRegistry(journal=journal)

    @registry.tool("pay", owned_by="clerk", requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return registry


def make_agent(kind: str, registry: ToolRegistry, model: Script) -> SdkAgent[Any]:
    """Return the clerk."""
    if kind == "registry agent":
        return RegistryAgent(name="clerk", model=make_model(model), registry=registry)
    return SdkAgent(name="clerk", model=make_model(model), tools=tools_for(registry, "clerk"))


def run(agent: SdkAgent[Any], state: Any = "Go.") -> Any:
    """Run an agent, or resume it."""
    return asyncio.run(Runner.run(agent, state, run_config=RUN_CONFIG))


def approve_all(paused: Any) -> Any:
    """Return the state of a run that waits, with all of its calls approved."""
    state = paused.to_state()
    for item in paused.interruptions:
        state.approve(item)
    return state


def get_text(model: Script) -> str:
    """Return what the model got for its last call."""
    return model.requests[-1].answers[-1].text


@pytest.mark.parametrize("kind", ["registry agent", "fixed list"])
@pytest.mark.parametrize("journal", JOURNALS)
def test_an_answer_counts_once(kind: str, journal: str | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each resume of the run that waits asks the model again; the call runs once."""
    monkeypatch.chdir(tmp_path)
    paid, model = list[int](), script([CALL], "Done.", "Done.")
    registry = make_registry(journal, paid)
    agent = make_agent(kind, registry, model)
    paused = run(agent)
    registry.approvals.answer(registry.approvals.pending()[0].id, Allow(by="eve"))

    assert "Done." == run(agent, approve_all(paused)).final_output
    assert ("paid 3", [3]) == (get_text(model), paid)
    assert "Done." == run(agent, approve_all(paused)).final_output
    assert "was used before" in get_text(model)
    assert [3] == paid
    registry.close()


@pytest.mark.parametrize("kind", ["registry agent", "fixed list"])
@pytest.mark.parametrize("answer", [None, Allow(by="eve"), Deny("no", by="eve")], ids=str)
@pytest.mark.parametrize("journal", JOURNALS)
def test_an_answer_is_for_one_run(
    kind: str, answer: Allow | Deny | None, journal: str | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Broken promise: what the operator allowed for one run let the equal call of another pass, which was shown to nobody.

    Two runs that waited at once for equal calls of one id shared a request, so that one of the two was denied.
    """
    monkeypatch.chdir(tmp_path)
    paid, models = list[int](), [script([CALL], "Done.") for _ in "12"]
    registry = make_registry(journal, paid)
    agents = [make_agent(kind, registry, model) for model in models]
    first = run(agents[0])
    (asked,) = registry.approvals.pending()
    if answer is not None:
        registry.approvals.answer(asked.id, answer)
    second = run(agents[1])

    assert [1, 1] == [len(paused.interruptions) for paused in (first, second)]
    assert (1 if answer else 2, []) == (len(registry.approvals.pending()), paid)
    for agent, paused in zip(agents, (first, second), strict=True):
        assert "Done." == run(agent, approve_all(paused)).final_output
    assert [not isinstance(answer, Deny), True] == ["paid 3" == get_text(model) for model in models]
    assert ([3] * (2 - isinstance(answer, Deny)), []) == (paid, registry.approvals.pending())
    registry.close()
