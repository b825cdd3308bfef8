"""What a person approves in Praval: the tool as it was shown, kept with the suspended chat, and used once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from praval_tools.execution.approvals import describe_approved_tool
from praval_tools.integrations.praval.praval_modules import PravalObject, copy_names, import_praval_module
from praval_tools.journal.events import INTERVENTION_PREFIX, ApprovalAnswered, EventType
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.frames import refuse_others_than_operator
from praval_tools.tools.tool import AnyTool

_SHOWN_KEY: Final = "praval_tools_shown"
"""The field of Praval's suspended state that says which tool a person is asked about."""

ANSWERED_BY: Final = "Praval"
"""Who answers, to the registry, where a person decides in Praval."""

used_interventions: Final[dict[str, object]] = {}
"""The ids of Praval's interventions whose approval let a call pass, of whatever registry; no two have one id."""


@cache
def guard_decisions() -> None:
    """
    Let the host program alone hand on what a person approved, by whatever object of Praval's it does.

    Each of them ends in one method of Praval's store, which is replaced for the process; it may still reject.
    """
    store_class = import_praval_module("praval.hitl.store").HITLStore
    rejects = import_praval_module("praval.hitl.models").InterventionDecision.REJECT
    decide = store_class.decide_intervention

    @copy_names(decide)
    def decide_as_host(store: PravalObject, *args: object, decision: object, **options: object) -> PravalObject:
        if decision is not rejects:
            refuse_others_than_operator("approve an intervention")
        return decide(store, *args, decision=decision, **options)

    store_class.decide_intervention = decide_as_host


def describe_shown_tool(tool: AnyTool) -> list[str]:
    """Return what an approval is bound to of *tool*, as JSON."""
    return [tool.name, *describe_approved_tool(tool)]


def add_shown_tool(state: Mapping[str, object], shown: list[str]) -> dict[str, object]:
    """Return the state in which a chat is suspended until a person has decided, with what the person is shown."""
    return {**state, _SHOWN_KEY: shown}


class PersonApproval:
    """
    The approval with which a suspended chat is resumed.

    Praval may resume a chat again whose first resumption was interrupted, in another process, too. What the person
    was shown is therefore kept, and forgotten, in Praval's own store. Code of an agent may write there: that the
    approval was used is remembered by the process and the registry's journal as well.

    Args:
        hitl_context: Which chat Praval resumes, and with which decision.
    """

    def __init__(self, hitl_context: PravalObject) -> None:
        self._run_id, self._db_path = str(hitl_context.get("run_id") or ""), hitl_context.get("db_path")
        self._intervention_id = str((hitl_context.get("resume_intervention") or {}).get("id") or "")
        self.call_id = f"{INTERVENTION_PREFIX}{self._intervention_id}"
        """The id of the call: whatever chat the approval comes with, it is the same call."""

    def use(self, registry: ToolRegistry, tool: AnyTool | None) -> bool:
        """Tell whether the person was shown *tool* as it is now, and the approval was not used before; it is now."""
        store = import_praval_module("praval.hitl.store").get_hitl_store(self._db_path)
        suspended = store.get_suspended_run(self._run_id)
        if tool is None or suspended is None or suspended.state.get("intervention_id") != self._intervention_id:
            return False
        state = dict(suspended.state)
        if state.pop(_SHOWN_KEY, None) != describe_shown_tool(tool) or self._is_recorded(registry):
            return False
        if not store.update_suspended_run_state(self._run_id, state, expected_status="resuming"):
            return False
        use = object()
        return used_interventions.setdefault(self._intervention_id, use) is use

    def _is_recorded(self, registry: ToolRegistry) -> bool:
        """Tell whether it was used by a call that the journal knows, of whatever process; a prune keeps the answers."""
        if registry.journal is None:
            return False
        events = registry.journal.events(type=EventType.APPROVAL_ANSWERED.value, call_id=self.call_id)
        return any(isinstance(event, ApprovalAnswered) and event.by == ANSWERED_BY for event in events)
