"""Policies: what they answer at each call, in their own name."""

from __future__ import annotations

import copy
from typing import Any

from praval_tools.access.state import AccessState, RegisteredPolicy
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.execution.failures import describe_error
from praval_tools.names import shorten_repr
from praval_tools.tools.decision import Ask, Decision, Deny
from praval_tools.tools.tool import Tool


def check_policies(
    home: Any, state: AccessState, agent: str | None, tool: Tool[..., Any], arguments: dict[str, Any]
) -> tuple[Decision | None, Ask | None]:
    """Ask every policy; return the refusal of the first that denies, and the last wish for an approval."""
    asked: Ask | None = None
    for policy in state.policies:
        answer = _check_policy(home, policy, agent, tool, arguments)
        if isinstance(answer, Deny):
            reason = f"Policy {policy.name!r} refuses{': ' + answer.reason if answer.reason else ''}."
            return Decision(False, "forbidden", "policy", agent, tool.name, reason,
                            f"Change the arguments, or the policy {policy.name!r}.", policy.name), None  # fmt: skip
        asked = answer if isinstance(answer, Ask) else asked
    return None, asked


def _check_policy(
    home: Any, policy: RegisteredPolicy, agent: str | None, tool: Tool[..., Any], arguments: Any
) -> Deny | Ask | None:
    """Ask one policy, in its own name; whatever is no clear answer refuses."""
    site = FrameScope(home, None, policy.name)
    try:
        with activate_frame(make_frame(site)):
            answer = policy.check(agent, tool, copy.deepcopy(arguments))
            if hasattr(answer, "__await__"):
                answer.close()
                return Deny("it is async, and policies are asked in place; make it a plain function")
            if answer is None or isinstance(answer, Deny | Ask):
                return answer
            if isinstance(answer, str):
                return Deny(answer)
    except Exception as error:  # isolation: a policy that fails refuses, and says so
        return Deny(f"it raised {type(error).__name__}: {describe_error(error)}")
    return Deny(f"it answered {shorten_repr(answer)}, which is none of None, text, Deny and Ask")
