"""Attaches an agent of Praval's to a registry of `praval_tools`, through which it then calls its tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from praval_tools.compat.praval.catalogue import get_catalogue
from praval_tools.compat.praval.conversion import to_agent_name
from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.agent_tools import AgentToolEntries, AgentTools
from praval_tools.integrations.praval.installation import get_installed_view
from praval_tools.integrations.praval.method_patches import patch_agent
from praval_tools.integrations.praval.migration import Migration, get_praval_agent, migrate_agent
from praval_tools.integrations.praval.praval_modules import PravalObject
from praval_tools.names import OPERATOR, describe_registry
from praval_tools.registry import default
from praval_tools.registry.agents import Agent
from praval_tools.registry.catalogue import Collisions
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.frames import get_current_actor, refuse_others_than_operator

_ATTACHMENT_ATTRIBUTE: Final = "_praval_tools_attachment"
"""The attribute in which Praval's agent keeps its attachment."""


class Attachment:
    """
    The attachment of an agent of Praval's to a registry; leaving it as a `with` block undoes it.

    Args:
        theirs: Praval's agent.
        agent: The agent in the registry.
        collisions: What happens where a tool that the agent declares has the name of another's.
    """

    def __init__(self, theirs: PravalObject, agent: Agent, collisions: Collisions) -> None:
        self.theirs, self.agent, self.registry = theirs, agent, agent.registry
        self.migration = Migration((), ())
        self._collisions = collisions
        self._tools = AgentTools(theirs, agent, collisions)
        self._attachments, self._attached_by = get_catalogue(agent.registry).attachments, get_current_actor()
        self._restore_methods: Callable[[], None] | None = None
        self._original_tools: dict[str, Any] = theirs.tools

    def __repr__(self) -> str:
        return f"<Attachment of Praval's {self.theirs.name!r} to {describe_registry(self.registry.name)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def names(self) -> dict[str, str]:
        """Return the tools that the agent may call now: the declared name of each, and the one in the registry."""
        return self._tools.names()

    def entries(self, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return what Praval reads of the tools that may be called now, of all of them or of those *only*."""
        return [*self._tools.entries(only)]

    def _attach_agent(self) -> None:
        """Bring in the agent's tools, and let Praval call through the registry from now on."""
        catalogue, name = get_catalogue(self.registry), self.agent.name
        reported = catalogue.reported_tools.get(self.theirs.name, ())
        restore_methods = patch_agent(self._tools)
        try:
            with self.registry.change():
                others = [other for other in list(self._attachments.values()) if isinstance(other, Attachment)]
                is_only = all(other.agent.name != name for other in others)
                self.migration = migrate_agent(
                    catalogue, self.theirs, self._collisions, reported, replace_own="left" if is_only else "none"
                )
                self._attachments[id(self)] = self
        except BaseException:
            restore_methods()
            self._attachments.pop(id(self), None)
            raise
        self._restore_methods, self.theirs.tools = restore_methods, AgentToolEntries(self._tools)
        self.theirs.__dict__[_ATTACHMENT_ATTRIBUTE] = self

    def _keep_for_host(self) -> None:
        """Let the code of an agent end it no more, where the host program has it now, too."""
        if get_current_actor() == OPERATOR:
            self._attached_by = OPERATOR

    def detach(self) -> None:
        """
        Give the agent its own dictionary back, with what it has declared since; safe twice.

        Raises:
            NotOwnerError: It is the code of an agent that detaches it, and did not attach it itself.
        """
        if get_current_actor() != self._attached_by:
            refuse_others_than_operator("detach an agent")
        restore_methods, self._restore_methods = self._restore_methods, None
        if restore_methods is None:
            return
        restore_methods()
        self.theirs.__dict__.pop(_ATTACHMENT_ATTRIBUTE, None)
        self._attachments.pop(id(self), None)
        entries = self.theirs.tools
        if isinstance(entries, AgentToolEntries):
            self._original_tools.update(entries.written)
            for name in entries.deleted:
                self._original_tools.pop(name, None)
            self.theirs.tools = self._original_tools


def attach(
    agent: PravalObject,
    registry: ToolRegistry | None = None,
    *,
    collisions: Collisions = "rename",
    auto_discover_tools: bool = True,
) -> Attachment:
    """
    Let an agent of Praval's have exactly the tools that it may call now, and call them through the registry.

    What it holds is brought along and stays its own; from then on the registry decides, before every round of a
    chat what is offered, and at every call what runs. Every call is checked, and journaled with its agent. Until it is
    detached, the agent has `add_tool`, `remove_tool`, `list_tools` and `tool_exists`, as agents of this package have.

    Args:
        agent: An agent, or a function decorated with Praval's `@agent`.
        registry: None: the installed one, else the default one.
        collisions: What happens where a tool of the agent has the name of another's; see `migrate`. What an agent
            of the same name left is replaced.
        auto_discover_tools: As the agent was declared with: False, and what it owns or is shared with everybody
            reaches it only if it holds it already, or is granted.

    Raises:
        MissingExtraError: Praval is not installed.
        TypeError: It is not an agent of Praval's.
        ToolUsageError: It is attached to another registry, or this Praval lacks the methods to attach to.
    """
    praval_agent, view = get_praval_agent(agent), get_installed_view()
    if registry is None:
        registry = view.registry if view is not None else default.get_tool_registry()
    with praval_agent._history_lock:  # its own lock; two threads may attach it at once
        attachment: Attachment | None = praval_agent.__dict__.get(_ATTACHMENT_ATTRIBUTE)
        if attachment is not None and attachment.registry is not registry:
            raise ToolUsageError(
                f"Praval's agent {praval_agent.name!r} is attached to {describe_registry(attachment.registry.name)}; "
                f"detach() it first.",
                "already-attached",
            )
        if attachment is not None and isinstance(praval_agent.tools, AgentToolEntries):
            attachment._keep_for_host()
            return attachment
        if attachment is not None:
            attachment.detach()  # somebody has given it another dictionary, which is brought along now
        name = to_agent_name(praval_agent.name)
        if name in registry.agents:
            own = registry.agent(name)
        else:
            own = Agent(name, registry=registry, auto_discover_tools=auto_discover_tools)
        attachment = Attachment(praval_agent, own, collisions)
        attachment._attach_agent()
        return attachment
