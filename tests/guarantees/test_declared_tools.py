"""What code of an agent or plugin declares while it runs leaves the host's tool of that name alone."""

# Tests of: access/succession, access/commands, access/restore, journal/stored_changes

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_code import run_as
from plugin_rig import HEAD, Site, loaded, site  # noqa: F401  # a fixture

from praval_tools import Agent, NotOwnerError, Outcome, Tool, ToolCall, ToolRegistry


def make_tool(text: str, **options: Any) -> Tool[..., Any]:
    """Return a tool `look`."""

    def look() -> str:
        """Look."""
        return text

    return Tool.from_function(look, "look", **options)


def find_outcome(registry: ToolRegistry, agent: str) -> Outcome:
    """Return how a call of `look` by *agent* ends."""
    return registry.execute(ToolCall(None, "look", {}, agent)).outcome


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a journal."""
    return str(tmp_path / "runs.db")


@pytest.fixture
def live(path: str) -> Any:
    """Return the registry of another program on the journal, in which boss's tool is shared."""
    with ToolRegistry(journal=path) as registry:
        registry.register_tool(make_tool("host", owned_by="boss", shared=True))
        yield registry


def test_a_former_owner_lifts_no_block(path: str) -> None:
    """Broken promise: who had owned a tool lifted its old block where it declared a tool of that name."""
    with ToolRegistry(journal=path) as registry:
        registry.register_tool(make_tool("host", owned_by="thief", shared=True))
        assert run_as(registry, "thief", lambda: registry.block("look", "clerk")) is None
        registry.transfer_ownership("look", "boss")
    with ToolRegistry(journal=path) as registry:
        run_as(registry, "thief", lambda: registry.register_tool(make_tool("thief's", owned_by="thief")))
        assert isinstance(run_as(registry, "thief", lambda: registry.unblock("look", "clerk")), NotOwnerError)
    with ToolRegistry(journal=path) as registry:
        registry.register_tool(make_tool("host", owned_by="thief", shared=True))
        assert find_outcome(registry, "clerk") is Outcome.FORBIDDEN


@pytest.mark.parametrize("flag", ["private", "shared"])
@pytest.mark.parametrize("declared", [True, False])
def test_flags_of_the_hosts_tool_count(flag: str, declared: bool) -> None:
    """Broken promise: with `replace=True` it kept whether the agent's tool was private or shared."""
    registry = ToolRegistry()
    Agent("lister", tool_categories=["watch"], registry=registry)
    options = {"owned_by": "thief", "category": "watch", flag: not declared}
    run_as(registry, "thief", lambda: registry.register_tool(make_tool("thief's", **options)))

    registry.register_tool(make_tool("host", owned_by="boss", category="watch", **{flag: declared}), replace=True)

    metadata = registry.get_tool("look").metadata  # type: ignore[union-attr]
    assert (getattr(metadata, flag), metadata.owned_by) == (declared, "boss")
    assert (find_outcome(registry, "lister") is Outcome.OK) is (flag == "shared" or not declared)


def test_past_owners_are_those_of_the_tool_itself() -> None:
    """Broken promise: who had owned the host's tool counted as a past owner of an agent's, and the other way round."""
    registry = ToolRegistry()
    for is_of_host in (True, False, True):
        put = partial(registry.register_tool, make_tool("text", owned_by="thief"), replace=True)
        put() if is_of_host else run_as(registry, "thief", put)
        assert () == registry.state.tools["look"].past_owners
        registry.transfer_ownership("look", "boss")
        registry.transfer_ownership("look", "thief")
        assert ("thief", "boss") == registry.state.tools["look"].past_owners


class TestFiles:
    @pytest.fixture(autouse=True)
    def _module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "sums.py").write_text('def look() -> str:\n    "Look."\n    return "host"\n')
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize("change", ["unshare", "transfer"])
    def test_what_the_operator_changed_of_a_tool_holds_when_it_comes_back(self, change: str) -> None:
        """Broken promise: an agent's tool that was there meanwhile made a load forget it, without a journal."""
        tool = {"name": "look", "module": "sums", "function": "look", "owned_by": "boss", "shared": True}
        Path("bank.yml").write_text(f"tools: {json.dumps([tool])}\n")
        registry = ToolRegistry()
        configured = registry.configure_from("bank.yml")
        if change == "unshare":
            registry.unshare_tool("look")
        else:
            registry.transfer_ownership("look", "clerk")
        before = registry.get_tool("look").metadata  # type: ignore[union-attr]
        Path("bank.yml").write_text("tools: []\n")
        configured.refresh()

        def declare() -> None:
            registry.register_tool(make_tool("thief's", owned_by="thief"))
            registry.unregister_tool("look")

        assert run_as(registry, "thief", declare) is None
        Path("bank.yml").write_text(f"tools: {json.dumps([tool])}\n")
        configured.refresh()

        after = registry.get_tool("look").metadata  # type: ignore[union-attr]
        assert (after.owned_by, after.shared) == (before.owned_by, before.shared)

    @pytest.mark.parametrize("journal", [None, "runs.db"])
    def test_a_grant_of_a_file_waits_for_the_hosts_tool(self, journal: str | None) -> None:
        """Broken promise: a load granted the tool by which its owner's code had replaced the host's."""
        Path("bank.yml").write_text('grants: [{"tool": "look", "agent": "clerk"}]\n')
        with ToolRegistry(journal=journal) as registry:
            registry.register_tool(make_tool("host", owned_by="thief", requires_approval=True))
            configured = registry.configure_from("bank.yml")
            assert find_outcome(registry, "clerk") is Outcome.APPROVAL_REQUIRED
            mine = make_tool("thief's", owned_by="thief")
            assert run_as(registry, "thief", lambda: registry.register_tool(mine, replace=True)) is None
            Path("bank.yml").write_text('grants: [{"tool": "look", "agent": "clerk", "reason": "new"}]\n')
            configured.refresh()
            assert find_outcome(registry, "clerk") is Outcome.FORBIDDEN

            registry.register_tool(make_tool("host", owned_by="boss"), replace=True)
            configured.refresh()
            assert find_outcome(registry, "clerk") is Outcome.OK


def test_that_it_is_not_shared_any_more(live: ToolRegistry, path: str) -> None:
    """Broken promise: an agent that ended the sharing of its tool ended that of the host's in other programs."""
    with ToolRegistry(journal=path) as registry:

        def share_and_unshare() -> None:
            registry.register_tool(make_tool("thief's", owned_by="thief", shared=True))
            registry.unshare_tool("look")

        assert run_as(registry, "thief", share_and_unshare) is None
        assert find_outcome(registry, "eve") is Outcome.FORBIDDEN
    assert find_outcome(live, "eve") is Outcome.OK


@pytest.mark.parametrize("which", ["host's", "thief's"])
def test_that_a_sharing_of_it_waits(path: str, which: str) -> None:
    """The end of sharing one of the two, while both wait, leaves the sharing of the other one."""

    def declare_and_share(registry: ToolRegistry, **options: Any) -> None:
        registry.register_tool(make_tool("thief's", owned_by="thief", **options))
        registry.share_tool("look")

    with ToolRegistry(journal=path) as registry:
        registry.register_tool(make_tool("host", owned_by="boss"))
        registry.share_tool("look")
    with ToolRegistry(journal=path) as registry:
        assert run_as(registry, "thief", lambda: declare_and_share(registry)) is None
    with ToolRegistry(journal=path) as registry:
        if which == "host's":
            registry.register_tool(make_tool("host", owned_by="boss", risk_level="high"))
        else:
            mine = make_tool("thief's", owned_by="thief", risk_level="high")
            run_as(registry, "thief", lambda: registry.register_tool(mine))
        assert find_outcome(registry, "eve") is Outcome.FORBIDDEN
        registry.unshare_tool("look")
    with ToolRegistry(journal=path) as registry:
        registry.register_tool(make_tool("host", owned_by="boss"))
        assert (find_outcome(registry, "eve") is Outcome.OK) is (which == "thief's")


CHANGES: dict[str, Callable[[ToolRegistry], object]] = {
    "remove": lambda registry: registry.remove_tool_from_agent("look", "eve"),
    "revoke": lambda registry: [registry.revoke(grant) for grant in registry.grants(tool="look")],
    "unregister": lambda registry: registry.unregister_tool("look"),
}


@pytest.mark.parametrize("key", [None, "tea"])
@pytest.mark.parametrize("change", CHANGES)
def test_that_a_grant_of_it_ends(path: str, key: str | None, change: str) -> None:
    """Broken promise: with a key, the operator's grant of the host's tool ended in other programs."""
    with ToolRegistry(journal=path) as live, ToolRegistry(journal=path) as registry:
        live.register_tool(make_tool("host", owned_by="boss"))
        live.assign_tool_to_agent("look", "eve", key=key)
        run_as(registry, "thief", lambda: registry.register_tool(make_tool("thief's", owned_by="thief")))
        registry.assign_tool_to_agent("look", "eve", key=key)
        assert run_as(registry, "thief", lambda: CHANGES[change](registry)) is None
        assert find_outcome(live, "eve") is Outcome.OK
    with ToolRegistry(journal=path) as later:
        later.register_tool(make_tool("host", owned_by="boss"))
        assert later.assign_tool_to_agent("look", "eve", key=key)
        assert find_outcome(later, "eve") is Outcome.OK


@pytest.mark.parametrize("change", CHANGES)
def test_that_a_key_was_used_for_it(path: str, change: str) -> None:
    """Broken promise: the operator's key could not be used for the host's tool any more."""
    with ToolRegistry(journal=path) as registry:
        run_as(registry, "thief", lambda: registry.register_tool(make_tool("thief's", owned_by="thief")))
        registry.assign_tool_to_agent("look", "eve", key="tea")
        assert run_as(registry, "thief", lambda: CHANGES[change](registry)) is None
    with ToolRegistry(journal=path) as later:
        later.register_tool(make_tool("host", owned_by="boss"))
        assert later.assign_tool_to_agent("look", "eve", key="tea")
        assert find_outcome(later, "eve") is Outcome.OK


def test_blocks_of_plugins(live: ToolRegistry, path: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken promise: a hook of a plugin blocked an agent from its own tool, and so from the host's elsewhere."""
    site.install(
        "acme",
        HEAD
        + """
raised = []
@tool("look", shared=True)
def look() -> str:
    \"\"\"Look.\"\"\"
    return "plugin's"
@hookimpl
def praval_tools_before_call():
    try:
        registry.block("look", "eve")
    except Exception as error:
        raised.append(error)
""",
    )
    with ToolRegistry(journal=path) as registry:
        loaded(registry)
        acme = sys.modules["acme"]
        monkeypatch.setattr(acme, "registry", registry, raising=False)
        registry.tool("other", shared=True, description="Other.")(lambda: None)
        assert registry.execute(ToolCall(None, "other", {}, "ann")).success
        (raised,) = acme.raised
    assert isinstance(raised, NotOwnerError)
    assert find_outcome(live, "eve") is Outcome.OK


CRASH = """
import os, sys
from praval_tools import Tool, ToolCall, ToolRegistry
def look() -> str:
    "Look."
    os._exit(1)
registry = ToolRegistry(journal=sys.argv[1])
registry.register_tool(Tool.from_function(look, "look", owned_by="boss", shared=True))
with registry.run("R"):
    registry.execute(ToolCall("c", "look", {}, "clerk"))
"""


def test_calls_in_doubt(path: str) -> None:
    """Broken promise: a call in doubt was made again, and forgotten, where an agent's tool said that it may be."""
    assert subprocess.run([sys.executable, "-c", CRASH, path], timeout=60).returncode == 1
    with ToolRegistry(journal=path) as registry:
        mine = make_tool("thief's", owned_by="thief", idempotent=True, shared=True)
        assert run_as(registry, "thief", lambda: registry.register_tool(mine)) is None
        with registry.run("R"):
            result = registry.execute(ToolCall("c", "look", {}, "clerk"))
    assert (result.outcome, result.result) == (Outcome.IN_DOUBT, None)
