"""
A model pays a bill: a wrong call is corrected, a person approves the payment, and the run goes on by its id.

The model is played, so that the example needs no key and no server.

Prints:
    paused: approval_required
    waiting: pay {'to': 'landlord', 'amount': 500.0}
    answer: The rent is paid.
    forbidden, ok, ok
    paid: [('landlord', 500.0)]
"""

from praval_tools import Agent, Allow, ToolRegistry
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

registry = ToolRegistry(name="house", journal="memory")
paid: list[tuple[str, float]] = []


@registry.tool("look_up_rent", shared=True, read_only=True)
def look_up_rent() -> float:
    """Say what the rent is."""
    return 500.0


@registry.tool("pay", owned_by="treasurer", requires_approval=True, risk_level="high")
def pay(to: str, amount: float) -> str:
    """Pay somebody."""
    paid.append((to, amount))
    return f"paid {amount:.2f} to {to}"


@registry.tool("open_safe", owned_by="owner")
def open_safe() -> str:
    """Open the safe."""
    return "open"


treasurer = Agent("treasurer", registry=registry)
model = fake_model(
    ("open_safe",),
    ("look_up_rent",),
    ("pay", {"to": "landlord", "amount": 500.0}),
    "The rent is paid.",
)

if __name__ == "__main__":
    loop = ToolLoop(treasurer, model)
    ended = loop.run("Pay the rent.", run_id="rent")
    print("paused:", ended.reason)

    (asked,) = registry.approvals.pending()
    print("waiting:", asked.tool, dict(asked.arguments))
    registry.approvals.answer(asked.tool_call_id, Allow(by="eve"))

    ended = loop.resume("rent")
    print("answer:", ended.text)
    print(", ".join(str(one.outcome) for one in ended.results))
    print("paid:", paid)
    registry.close()
