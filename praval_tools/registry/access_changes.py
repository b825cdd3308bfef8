"""Makes changes to agents, grants, blocks, policies and settings in somebody's name, and warns of what is doubtful."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVarTuple

from msgspec.structs import replace

from praval_tools.access import commands, grants
from praval_tools.access.events import AnyStateEvent, PolicyAdded, ToolDisabled
from praval_tools.access.other_registry import describe_other_registry, note_foreign_tool
from praval_tools.access.permissions import Grant, GrantTerms, SwitchTarget
from praval_tools.access.records import Block, Principal
from praval_tools.access.rules import get_end_reason, resolve_access
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore, with_stored_counts
from praval_tools.clock import Clock
from praval_tools.errors import (
    AccessWarning,
    GrantError,
    NotOwnerError,
    UnknownToolError,
    UnknownToolWarning,
    get_user_stacklevel,
)
from praval_tools.execution.context import get_current_principal, list_change_delegators, resolve_actor
from praval_tools.execution.policies import takes_principal
from praval_tools.misuse import describe_unknown_keyword
from praval_tools.names import (
    FILE_LABEL_PREFIX,
    OPERATOR,
    check_agent_name,
    check_tool_name,
    describe_two_registries,
    get_agent_name,
    get_class_name,
    get_name,
    suggest_names,
)
from praval_tools.registry.toolset import Toolset, get_executor
from praval_tools.tools.frames import get_current_person
from praval_tools.tools.plain_managers import plain_manager

Details = TypeVarTuple("Details")

_OWNER_VERBS: Final = frozenset(
    ("lend", "remove", "revoke", "block an agent from", "unblock", "transfer", "share", "unshare", "unregister")
)
"""What the owner of a tool may do, and start-up code does in its name."""


def warn_unknown_tool(tool: str, known: Iterable[str], effect: str, other_registry: str = "") -> None:
    """Warn that there is no tool of this name, what follows from that, and which registry has it, or similar names."""
    text = f"Tool {tool!r} not found; {effect}{f' {other_registry}' if other_registry else suggest_names(tool, known)}"
    warnings.warn(text, UnknownToolWarning, stacklevel=get_user_stacklevel())


def _warn_of_access(text: str) -> None:
    warnings.warn(text, AccessWarning, stacklevel=get_user_stacklevel())


class AccessChanges:
    """
    Makes the changes of one registry.

    Args:
        access_store: Holds the state.
        clock: Time and ids for new grants.
    """

    def __init__(self, access_store: StateStore, clock: Clock) -> None:
        self._access_store, self._clock = access_store, clock

    def commit(
        self, verb: str, by: object, plan: Callable[[AccessState, str], commands.EventList], tool: str | None = None
    ) -> bool:
        """
        Change the state in the name of *by*, by default of whoever is running.

        Returns:
            Whether there was something to change.
        """
        return bool(self._commit_as_owner(resolve_actor(by, verb, tool), verb, plan))

    def _commit_for_all(
        self,
        actor: str,
        plan: Callable[[AccessState, str], commands.EventList],
        check: Callable[[AccessState, str], object] | None = None,
    ) -> Sequence[AnyStateEvent]:
        """
        Change the state in the name of *actor*, by what each of those for whom it acts may change, too.

        *check* refuses what one of those may not, where that is not what *plan* does.
        """
        delegators = list_change_delegators()

        def plan_for_all(state: AccessState) -> commands.EventList:
            for delegator in delegators:
                (check or plan)(state, delegator)
            return plan(state, actor)

        return self._access_store.commit(plan_for_all)

    def _get_recipient_name(self, agent: object, tool: object) -> str:
        """
        Return the name of an agent that is given a tool, by its name or as object.

        One that another registry declares, and this one does not, is warned of: its calls are that registry's, which
        remembers the tool for what it says of them.
        """
        name, store, toolset = get_agent_name(agent), self._access_store, getattr(agent, "tools", None)
        agent_store = get_executor(toolset).runtime.access_store if isinstance(toolset, Toolset) else store
        if agent_store is not store:
            if (record := store.get_current_state().find_tool_record(get_name(tool))) is not None:
                note_foreign_tool(agent_store, record.tool)
            declared = [side.get_current_state().get_profile(name).declared for side in (store, agent_store)]
            if declared == [False, True]:
                here, there = describe_two_registries(store.name, agent_store.name)
                text = f"Agent {name!r} is declared in {there}, and this counts in {here} alone"
                _warn_of_access(f"{text}; declare the agent here, too.")
        return name

    @plain_manager
    def _resolve_tool_name(self, tool: object) -> Iterator[str]:
        """
        Give the name of a tool, which may be given as object.

        Where no tool has this name yet, it may come as it does before a look-up: a plugin may bring it. An
        `UnknownToolError` of what is done inside says which other registry has it, where that is known.
        """
        store, name = self._access_store, get_name(tool)
        if name not in store.get_current_state().tools:
            store.prepare_lookup()
            note_foreign_tool(store, tool)
        try:
            yield name
        except UnknownToolError as error:
            error.home = describe_other_registry(store, name)
            raise

    def change_tool(
        self,
        verb: str,
        tool: object,
        by: object,
        reason: str,
        plan: Callable[[AccessState, str, *Details, str, str], commands.EventList],
        *details: *Details,
    ) -> bool:
        """Change the state by what *plan* says of a tool, given by name or as object."""
        with self._resolve_tool_name(tool) as name:
            return self.commit(verb, by, lambda state, actor: plan(state, name, *details, actor, reason), name)

    def _commit_as_owner(
        self, actor: str, verb: str, plan: Callable[[AccessState, str], commands.EventList]
    ) -> Sequence[AnyStateEvent] | None:
        """
        Change the state in the name of *actor*, which may be a tool's owner.

        Returns:
            The events; None where the tool was transferred from *actor* before this process started, with a warning:
            start-up code cannot know that.
        """
        try:
            return self._commit_for_all(actor, plan)
        except NotOwnerError as error:
            if (text := self._describe_earlier_transfer(error, actor, verb)) == "":
                raise
            _warn_of_access(text)
            return None

    def _describe_earlier_transfer(self, error: NotOwnerError, actor: str, verb: str) -> str:
        """Return how to warn of a refusal; an empty text where it stands, as for every agent that runs."""
        if get_current_principal() is not None or error.tool is None or verb not in _OWNER_VERBS:
            return ""
        return commands.describe_earlier_transfer(self._access_store.get_current_state(), error.tool, actor, verb)

    def assign(self, tool: object, to: object, by: object, terms: GrantTerms) -> bool:
        """
        Grant a tool.

        Returns:
            Whether the grant stands; if not, a warning says why, unless it was made before and has ended.
        """
        agent = self._get_recipient_name(to, tool)
        with self._resolve_tool_name(tool) as name:
            known = self._access_store.get_current_state().tools
        if name not in known:
            warn_unknown_tool(name, known, "nothing was assigned.", describe_other_registry(self._access_store, name))
            return False
        try:
            grant = self._commit_grant(name, agent, by, terms)
        except grants.AssignmentDeclined as declined:
            _warn_of_access(str(declined))
            return False
        state = self._access_store.get_current_state()
        if state.get_profile(agent).retired:
            _warn_of_access(f"Agent {agent!r} is retired and can call nothing; declare it again.")
            return False
        record = state.find_grant(grant.id)
        return record is not None and not get_end_reason(record, self._clock.now())

    def grant(self, tool: object, to: object, by: object, terms: GrantTerms) -> Grant:
        """
        Grant a tool; one that was made with the same key, and could not be made now, stays as it is, with a warning.

        Raises:
            GrantError: The grant was declined.
            UnknownToolError: There is no tool of this name.
        """
        with self._resolve_tool_name(tool) as name:
            agent = self._get_recipient_name(to, tool)
            try:
                return self._commit_grant(name, agent, by, terms)
            except grants.AssignmentDeclined as declined:
                request = grants.GrantRequest(tool=name, agent=agent, person="", **terms)
                state, actor = self._access_store.get_current_state(), resolve_actor(by, "lend", name)
                made_before = grants.find_same_key_grant(state, request, actor)
                if made_before is None:
                    raise GrantError(get_name(tool), [str(declined).rstrip(".")]) from None
                _warn_of_access(str(declined))
                return made_before

    def _count_what_is_left(self, state: AccessState, lender: str) -> AccessState:
        """Return *state* as it is for a lender: with what other processes have left of its grants."""
        return state if lender == OPERATOR else with_stored_counts(self._access_store, state)

    def _commit_grant(self, tool: str, agent: str, by: object, terms: GrantTerms) -> Grant:
        actor, now = resolve_actor(by, "lend", tool), self._clock.now()
        for name in terms.keys() - GrantTerms.__annotations__.keys():
            raise TypeError(describe_unknown_keyword("grant", name, ["by", *GrantTerms.__annotations__]))
        person = get_current_person() if actor == OPERATOR else ""
        request = grants.GrantRequest(tool=tool, agent=check_agent_name(agent), person=person, **terms)
        if request.key is not None and request.key.startswith(FILE_LABEL_PREFIX):
            problem = f"keys that begin with {FILE_LABEL_PREFIX!r} are those of configuration files; choose another key"
            raise GrantError(tool, [problem])
        new_id = self._clock.new_id()
        known = self._access_store.get_current_state()
        planned: list[tuple[Grant, str]] = []
        has_returned = False

        def plan_grant(state: AccessState, lender: str) -> commands.EventList:
            try:
                left = self._count_what_is_left(state, lender)
                events, grant, warning = grants.plan_grant(left, request, lender, now, new_id, known)
            except grants.AssignmentDeclined as declined:
                if has_returned:  # planned again at the end of a `change()`, which is all or nothing
                    raise GrantError(tool, [str(declined).rstrip(".")]) from None
                raise
            planned[:] = [(grant, warning)]
            return events

        def check_delegator(state: AccessState, delegator: str) -> None:
            grants.require_authority(self._count_what_is_left(state, delegator), request, delegator, now)

        try:
            self._commit_for_all(actor, plan_grant, check_delegator)
        except NotOwnerError as error:
            planned = [self._find_earlier_grant(error, request, actor, now)]
        has_returned = True
        grant, warning = planned[0]
        if warning:
            _warn_of_access(warning)
        return grant

    def _find_earlier_grant(
        self, error: NotOwnerError, request: grants.GrantRequest, actor: str, now: datetime
    ) -> tuple[Grant, str]:
        """
        Return the grant that start-up code made with this key in an earlier process, and a warning or an empty text.

        Raises:
            NotOwnerError: It made none: *error* stands.
            AssignmentDeclined: It made one without a key.
        """
        state = self._access_store.get_current_state()
        transfer = self._describe_earlier_transfer(error, actor, "lend")
        loss = grants.describe_loss(state, request, actor) if get_current_principal() is None else ""
        if not (transfer or loss):
            raise error
        same = grants.find_same_key_grant(state, request, actor)
        if same is None:
            raise grants.AssignmentDeclined(transfer or loss) from None
        is_live = same.id in state.grants and grants.is_live(state, state.grants[same.id], now)
        return same, transfer or (loss if is_live else "")

    def remove(self, tool: str, agent: str, by: object, reason: str) -> bool:
        """
        Take a tool from an agent.

        Returns:
            Whether the agent could call it before, and cannot any more.
        """
        with self._resolve_tool_name(tool):
            actor, now = resolve_actor(by, "remove", tool), self._clock.now()
        was_callable = False

        def plan_removal(state: AccessState, remover: str) -> commands.EventList:
            nonlocal was_callable
            counted = with_stored_counts(self._access_store, state)
            was_callable = resolve_access(counted, Principal(agent), tool, now).decision.allowed
            return grants.plan_removal(state, tool, agent, remover, reason)

        events = self._commit_as_owner(actor, "remove", plan_removal)
        if events is None:
            return False
        state = self._access_store.get_current_state()
        if was_callable and (decision := resolve_access(state, Principal(agent), tool, now).decision).allowed:
            _warn_of_access(
                f"{agent!r} can still call {tool!r}: {decision.reason} "
                f"Only the operator ends that; its owner may block it."
            )
            return False
        if tool not in state.tools and tool not in state.get_profile(agent).tools:
            nothing = "nothing was removed. block() refuses a tool that comes later."
            effect = "its grants that wait for the tool ended." if events else nothing
            warn_unknown_tool(tool, state.tools, effect)
        return was_callable

    def transfer(self, tool: object, to: object, by: object, reason: str) -> None:
        """Give a tool another owner."""
        owner = check_agent_name(self._get_recipient_name(to, tool))
        self.change_tool("transfer", tool, by, reason, commands.plan_transfer, owner)

    def retire(self, agent: object, by: object, reason: str) -> None:
        """End an agent."""
        name = check_agent_name(get_agent_name(agent))
        self.commit(
            f"retire the agent {name!r}", by, lambda state, actor: commands.plan_retirement(state, name, actor, reason)
        )

    def block(self, tool: object, agent: object, by: object, reason: str) -> Block:
        """Refuse a tool to an agent, whatever permits it."""
        name = check_tool_name(get_name(tool))
        blocked_agent = check_agent_name(get_agent_name(agent))
        verb = "block an agent from"
        actor = resolve_actor(by, verb, name)
        person = get_current_person() if actor == OPERATOR else ""
        block = Block(tool=name, agent=blocked_agent, by=actor, reason=reason, person=person)

        def plan_block(state: AccessState, setter: str) -> commands.EventList:
            return commands.plan_block(state, replace(block, by=setter))

        self._commit_as_owner(block.by, verb, plan_block)
        return block

    def switch(self, on: bool, name: object, by: object, reason: str, target: SwitchTarget) -> None:
        """Switch a tool, namespace, category or tag on or off, for everybody."""
        text = None if name is None else get_name(name)
        self.commit(
            "enable" if on else "disable",
            by,
            lambda state, actor: commands.plan_switch(state, on, text, target, actor, reason),
            text,
        )

    def configure_namespace(self, namespace: str, changes: Mapping[str, object], by: object, reason: str) -> None:
        """
        Override fields of the metadata of each tool that is in a namespace.

        Raises:
            UnknownToolError: No tool is in it.
        """

        def plan_all(state: AccessState, actor: str) -> commands.EventList:
            _, name = commands.resolve_switch_target(state, None, {"namespace": namespace}, False)
            tools = state.get_tools_by_label("namespace", name)
            plans = [commands.plan_configuration(state, tool, changes, actor, reason) for tool in tools]
            return [event for plan in plans for event in plan]

        self.commit("configure", by, plan_all)

    def disable_by_tags(self, any_of: Collection[str], all_of: Collection[str], by: object, reason: str) -> list[str]:
        """Disable each tool that has one of some tags, and every one of others; return their names."""
        actor = resolve_actor(by, "disable by tags")
        events = self._access_store.commit(
            lambda state: commands.plan_disabling_by_tags(state, any_of, all_of, actor, reason)
        )
        return [event.name for event in events if isinstance(event, ToolDisabled)]

    def add_policy(self, policy: Callable[..., object], name: str | None, by: object) -> Callable[[], object]:
        """
        Ask *policy* at every call, under a name of its own.

        Returns:
            A function that removes it.
        """
        actor = resolve_actor(by, "add a policy")
        commands.require_operator(actor, "add a policy")
        label, added = str(name or getattr(policy, "__name__", get_class_name(type(policy)))), ""

        def plan_addition(state: AccessState) -> commands.EventList:
            nonlocal added
            added = commands.make_policy_name(state, label)
            return [PolicyAdded(name=added, policy=policy, takes_principal=takes_principal(policy), by=actor)]

        self._access_store.commit(plan_addition)
        return lambda: self.commit(
            "remove a policy", None, lambda _, remover: commands.plan_policy_removal(added, remover)
        )
