"""
Assign tools while the system runs: lend within bounds, look why, take back.

Prints:
    before: []
    lent: ['wire_money']
    50 to landlord: sent 50.00 to landlord
    5000 to landlord: forbidden
    uses left: 1
    taken back: []
"""

from praval_tools import Agent, Outcome, ToolCall, ToolRegistry, tool

registry = ToolRegistry(name="bank")


@tool("wire_money", owned_by="treasurer", risk_level="high", registry=registry)
def wire_money(to: str, amount: float) -> str:
    """Send money."""
    return f"sent {amount:.2f} to {to}"


treasurer = Agent("treasurer", registry=registry)
intern = Agent("intern", registry=registry)


def try_to_send(amount: float) -> str:
    """Let the intern try; an answer or the outcome of the refusal."""
    result = intern.execute(ToolCall(name="wire_money", arguments={"to": "landlord", "amount": amount}))
    return str(result.result) if result.outcome is Outcome.OK else str(result.outcome)


if __name__ == "__main__":
    print("before:", intern.list_tools())

    grant = registry.grant(
        "wire_money",
        intern,
        by="treasurer",
        max_calls=2,
        where={"amount": {"maximum": 100}, "to": {"enum": ["landlord"]}},
        reason="rent, while I am away",
    )
    print("lent:", intern.list_tools())
    print("50 to landlord:", try_to_send(50))
    print("5000 to landlord:", try_to_send(5000))
    print("uses left:", registry.uses_left(grant))

    registry.remove_tool_from_agent("wire_money", intern)
    print("taken back:", intern.list_tools())
