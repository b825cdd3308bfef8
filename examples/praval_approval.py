"""
A person approves, in Praval's own way, what the registry says must be approved.

The approval is tightened while the chat runs; the chat is suspended, and resumed with edited arguments.

Prints:
    sent 5 to ann
    suspended: wire_money {'to': 'bob', 'amount': 5000} (risk high: larger than usual)
    the person says: 50 will do
    sent 50 to bob
    the model says: done
    --- and in the journal
    wire_money ok
    wire_money approval_required
    approved by Praval
    wire_money ok
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import praval
from praval.models import ModelResponse, ProviderCapabilities, ToolCall
from praval.providers.registry import get_provider_registry

from praval_tools import ToolRegistry
from praval_tools.integrations.praval import attach
from praval_tools.journal.events import ApprovalAnswered

registry = ToolRegistry(name="bank", journal="memory")


@registry.tool("wire_money", owned_by="teller")
def wire_money(to: str, amount: int) -> str:
    """Send money."""
    print(f"sent {amount} to {to}")
    return "sent"


class Script:
    """A model that sends a little, then a lot; somebody becomes careful in between."""

    def invoke(self, request: Any, tools: Any = None) -> ModelResponse:
        """Send a little."""
        return ModelResponse(tool_calls=[ToolCall(id="1", name="wire_money", arguments={"to": "ann", "amount": 5})])

    def continue_with_tool_results(self, request: Any, response: Any, results: Any) -> ModelResponse:
        """Send a lot, and say so."""
        if response.tool_calls[0].id == "2":
            return ModelResponse(content="done")
        registry.configure(
            "wire_money", requires_approval=True, risk_level="high", approval_reason="larger than usual"
        )
        return ModelResponse(tool_calls=[ToolCall(id="2", name="wire_money", arguments={"to": "bob", "amount": 5000})])


def main() -> None:
    """Chat, be suspended, approve with other arguments, resume."""
    get_provider_registry().register_provider(
        "script", lambda config: Script(), default_model="script", capabilities=ProviderCapabilities(tools=True)
    )
    with tempfile.TemporaryDirectory() as folder, registry:
        path = str(Path(folder) / "hitl.db")
        teller = praval.Agent("teller", provider="script", hitl_enabled=True, hitl_db_path=path)
        with attach(teller, registry):
            try:
                teller.chat("Pay the bills.")
            except praval.InterventionRequired as waiting:
                asked = teller.get_pending_interventions()[0]
                print(f"suspended: {asked.tool_name} {asked.original_args} (risk {asked.risk_level}: {waiting.reason})")
                print("the person says: 50 will do")
                teller.approve_intervention(asked.id, edited_args={"to": "bob", "amount": 50})
                print("the model says:", teller.resume_run(waiting.run_id))

        print("--- and in the journal")
        for event in registry.journal.events() if registry.journal else ():
            if isinstance(event, ApprovalAnswered):
                print("approved by", event.by)
            elif hasattr(event, "outcome"):
                print(event.tool_name, event.outcome)


if __name__ == "__main__":
    main()
