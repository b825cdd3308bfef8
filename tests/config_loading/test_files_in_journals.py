"""In a journal, what a file declared is known by the file's name: whatever is loaded beside it, and in what order."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from praval_tools import ConfigError, Outcome, ToolCall, ToolRegistry
from praval_tools.config_loading.source import ConfigWarning
from praval_tools.execution.protocols import ToolSource

# Tests of: change, source, labels

TOOLS, AGENTS, FILES = ("a", "b"), ("ann", "bob"), ("one.yml", "two.yml", "one.yml:x.yml")
BASE = "tools:\n" + "".join(f"  - {{name: {tool}, module: sums, function: add, category: {tool}}}\n" for tool in TOOLS)
Entry = tuple[str, str, int | None]
"""The tool, the agent and the count of a grant."""


def save(name: str, text: str) -> str:
    """Write a file of the working directory, and return its path."""
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
    return name


def start(*files: str) -> ToolRegistry:
    """Return a program: its registry, with the journal that all of them share, and the tools."""
    registry = ToolRegistry(journal="runs.db")
    registry.configure_from(save("base.yml", BASE), *files)
    return registry


def can(registry: ToolRegistry, tool: str = "a", agent: str = "ann") -> bool:
    """Tell whether a call is let in."""
    return Outcome.OK is registry.execute(ToolCall(None, tool, {"x": 1}, agent)).outcome


class Model:
    """What is in force by the words of the documentation: each file has grants, blocks and a category of its own."""

    def __init__(self) -> None:
        self.declared: dict[str, dict[Entry, None]] = {file: {} for file in FILES}
        self.left: dict[str, dict[Entry, int | None]] = {file: {} for file in FILES}
        self.revoked: set[tuple[str, Entry]] = set()
        self.blocks: dict[str, set[tuple[str, str]]] = {file: set() for file in FILES}
        self.blocks_in_force: dict[str, set[tuple[str, str]]] = {file: set() for file in FILES}
        self.disabled = dict.fromkeys(FILES, False)
        self.disabled_in_force = dict.fromkeys(FILES, False)

    def write(self, file: str) -> None:
        """Write a file as it is declared now."""
        grants = [{"tool": tool, "agent": agent, "reason": file} for tool, agent, _ in self.declared[file]]
        for grant, (_, _, calls) in zip(grants, self.declared[file], strict=True):
            grant |= {} if calls is None else {"max_calls": calls}
        blocks = [{"tool": tool, "agent": agent} for tool, agent in sorted(self.blocks[file])]
        category = {f"of {file}": {"enabled": not self.disabled[file]}}
        save(file, json.dumps({"grants": grants, "blocks": blocks, "categories": category}))

    def load(self, files: Sequence[str]) -> None:
        """Put files into force, all at once."""
        for file in files:
            self.blocks_in_force[file] = set(self.blocks[file])
            self.disabled_in_force[file] = self.disabled[file]
        for file in files:
            left, declared = self.left[file], self.declared[file]
            for entry in [entry for entry in left if entry not in declared]:
                del left[entry]
            for entry in declared:
                if entry not in left and (file, entry) not in self.revoked and not self.is_blocked(*entry[:2]):
                    left[entry] = entry[2]

    def is_blocked(self, tool: str, agent: str) -> bool:
        """Tell whether a file blocks the agent."""
        return any((tool, agent) in blocks for blocks in self.blocks_in_force.values())

    def list_live(self) -> list[tuple[str, Entry, int | None]]:
        """Return the grants that are not spent, with what is left of each."""
        return sorted(
            ((file, entry, left) for file, grants in self.left.items() for entry, left in grants.items() if left != 0),
            key=str,
        )

    def revoke(self, file: str, entry: Entry) -> None:
        """End a grant for good."""
        self.revoked.add((file, entry))
        del self.left[file][entry]


def list_live(registry: ToolRegistry) -> list[tuple[str, Entry, int | None]]:
    """Return the live grants, with what is left of each."""
    return sorted(
        (
            (grant.reason, (grant.tool, grant.agent, grant.max_calls), registry.uses_left(grant))
            for grant in registry.grants()
        ),
        key=str,
    )


class History:
    """What happens to programs that share a journal, and to the model."""

    def __init__(self, seed: int) -> None:
        self.random, self.model, self.log = Random(seed), Model(), list[object]()
        self.registry, self.sources = ToolRegistry(), dict[str, ToolSource]()
        for file in FILES:
            self.model.write(file)
        self.start()

    def start(self) -> None:
        """Close the program, and start one with other files, in other orders, loaded together or one by one."""
        self.registry.close()
        chosen = self.random.sample(FILES, self.random.randint(1, len(FILES)))
        self.log.append(("start", chosen))
        self.registry, self.sources = ToolRegistry(journal="runs.db"), {}
        together, apart = ["base.yml", *chosen], list[str]()
        if self.random.random() < 0.5:
            together, apart = together[:2], together[2:]
        self.random.shuffle(together)
        save("base.yml", BASE)
        for files in (together, *([file] for file in apart)):
            source = self.registry.configure_from(*files)
            own = [file for file in files if file in FILES]
            self.model.load(own)
            self.sources |= dict.fromkeys(own, source)

    def edit(self) -> None:
        """Change an entry of a file; where it is loaded, load it again, or not yet."""
        file, model = self.random.choice(FILES), self.model
        tool, agent = self.random.choice(TOOLS), self.random.choice(AGENTS)
        match self.random.choice(["grant", "grant", "terms", "block", "category", "order"]):
            case "grant" | "terms":
                entry = (tool, agent, self.random.choice([None, 1, 2]))
                if model.declared[file].pop(entry, 0) == 0:
                    model.declared[file][entry] = None
            case "block":
                model.blocks[file] ^= {(tool, agent)}
            case "category":
                model.disabled[file] = not model.disabled[file]
            case _:
                model.declared[file] = dict.fromkeys(reversed(model.declared[file]))
        model.write(file)
        self.log.append(("edit", file, dict(model.declared[file]), set(model.blocks[file]), model.disabled[file]))
        if file in self.sources and self.random.random() < 0.5:
            source = self.sources[file]
            self.log.append("refresh")
            source.refresh()
            model.load(self.list_beside(source))

    def list_beside(self, source: ToolSource) -> list[str]:
        """Return the files of a source."""
        return [file for file, other in self.sources.items() if other is source]

    def revoke(self) -> None:
        """Revoke a grant, if there is one."""
        if grants := self.registry.grants():
            grant = self.random.choice(grants)
            self.log.append(("revoke", grant.reason, grant.tool, grant.agent, grant.max_calls))
            self.registry.revoke(grant)
            self.model.revoke(grant.reason, (grant.tool, grant.agent, grant.max_calls))

    def call(self) -> None:
        """Call a tool: a counted grant is spent where no other lets the call in."""
        tool, agent, model = self.random.choice(TOOLS), self.random.choice(AGENTS), self.model
        grants = [(file, entry) for file, entry, _ in model.list_live() if entry[:2] == (tool, agent)]
        is_allowed = can(self.registry, tool, agent)
        self.log.append(("call", tool, agent, is_allowed))
        assert is_allowed == (bool(grants) and not model.is_blocked(tool, agent))
        if is_allowed and all(calls is not None for _, (_, _, calls) in grants):
            present = list_live(self.registry)
            spent = [one for one in model.list_live() if one not in present]
            assert 1 == len(spent)
            ((file, entry, left),) = spent
            assert (file, entry) in grants and left is not None
            model.left[file][entry] = left - 1

    def compare(self) -> None:
        """Compare what is in force."""
        assert self.model.list_live() == list_live(self.registry)
        disabled = {f"of {file}" for file, is_disabled in self.model.disabled_in_force.items() if is_disabled}
        assert disabled == {name for kind, name in self.registry.state.disabled if kind == "category"}


@pytest.mark.filterwarnings("ignore::praval_tools.config_loading.source.ConfigWarning")
@pytest.mark.parametrize("seed", range(10))
def test_histories(folder: Path, seed: int) -> None:
    """Whatever is edited, revoked and spent, whichever files a program loads, each file's entries are its own."""
    history = History(seed)
    steps = [history.start, history.edit, history.edit, history.edit, history.revoke, history.call, history.call]
    try:
        for _ in range(40):
            history.random.choice(steps)()
            history.compare()
    except AssertionError as error:
        error.add_note("\n".join(map(str, history.log)))
        raise
    finally:
        history.registry.close()


GRANT = "grants: [{tool: a, agent: ann}]\n"
COUNTED = "grants: [{tool: a, agent: ann, max_calls: 1}]\n"


class TestNames:
    def test_two_files_of_one_name_are_refused(self, folder: Path) -> None:
        """A journal would take one for the other, whichever configuration of the registry they belong to."""
        first, second = save("x/g.yml", GRANT), save("y/g.yml", "grants: [{tool: b, agent: ann}]\n")
        with pytest.raises(ConfigError, match="a journal knows a file by its name") as caught, start(first, second):
            pass
        assert all(words in str(caught.value) for words in (str(folder / first), str(folder / second), "rename one"))
        with start(first) as registry:
            with pytest.raises(ConfigError, match="a journal knows a file by its name"):
                registry.configure_from(second)
            assert [True, False] == [can(registry, tool) for tool in TOOLS]
            registry.refresh()
        with pytest.raises(ConfigError, match="a journal knows a file by its name"):
            ToolRegistry.from_config("base.yml", save("j.yml", "journal: {path: runs.db}\n"), first, second)

    def test_without_a_journal_they_are_distinguished(self, folder: Path) -> None:
        """In one configuration, too: what one does not declare any more ends, and the other's stays."""
        first, second = save("x/g.yml", GRANT), save("y/g.yml", GRANT)
        registry = ToolRegistry()
        source = registry.configure_from(save("base.yml", BASE), first, second)
        assert 2 == len(registry.grants())
        save(second, "blocks: [{tool: b, agent: bob}]\n")
        source.refresh()
        assert 1 == len(registry.grants())

    def test_what_is_recorded_names_the_file(self, folder: Path) -> None:
        """Not the files that are loaded with it."""
        file = save("one.yml", GRANT + "blocks: [{tool: b, agent: ann}]\ncategories: {b: {enabled: false}}\n")
        with start(file, save("two.yml", "agents: {bob: }\n")) as registry:
            assert ["config:one.yml"] == [block.by for block in registry.state.get_access("ann", "b").blocks]
            assert [["config:one.yml"]] == [[off.by for off in offs] for offs in registry.state.disabled.values()]
            save(file, "agents: {eve: }\n")
            registry.refresh()
            assert {"revoked by 'config:one.yml'"} == {record.end_reason for record in registry.state.grants.values()}


class TestFilesOfOneRegistry:
    def test_equal_entries_of_two_files_are_two(self, folder: Path) -> None:
        """Each counts on its own, and ends with its own file."""
        one, two = save("one.yml", COUNTED), save("two.yml", COUNTED)
        with start(one, two) as registry:
            assert [True, True, False] == [can(registry) for _ in range(3)]
        with start(two, one) as registry:
            assert not can(registry)

    def test_a_category_stays_disabled_while_a_file_says_so(self, folder: Path) -> None:
        """Also where another file that disabled it first does not any more, in whichever configuration."""
        text = "categories: {a: {enabled: false}}\n"
        one, two = save("one.yml", GRANT + text), save("two.yml", text)
        with start(one) as registry:
            registry.configure_from(two)
            save(one, GRANT)
            registry.refresh()
            assert not can(registry)
            save(two, "categories: {}\n")
            registry.refresh()
            assert can(registry)

    @pytest.mark.parametrize("has_file", [True, False], ids=["the file", "the operator"])
    def test_a_category_that_was_disabled_in_an_older_journal(self, folder: Path, *, has_file: bool) -> None:
        """It had one row of a category, whoever disabled it; that ends as a row of now does, and for good."""
        text = "categories: {a: {enabled: false}}\n"
        one = save("one.yml", GRANT + text)
        with start(one):
            pass
        with closing(sqlite3.connect("runs.db", isolation_level=None)) as database:
            database.execute("UPDATE journal_state SET key = '[\"category\",\"a\"]' WHERE kind = 'disabled'")
        with start(one) as registry, start() as other:
            assert [False, False] == [can(registry), can(other)]
            if not has_file:
                registry.enable(category="a")
            save(one, GRANT + ("" if has_file else text))
            registry.refresh()
            assert [True, True] == [can(registry), can(other)]
        with start() as registry:
            assert can(registry)

    def test_a_block_that_another_entry_repeats_stays(self, folder: Path) -> None:
        """One of two entries that differ in their reasons is taken out."""
        entries = [f"{{tool: a, agent: ann, reason: {reason}}}" for reason in ("slow", "late")]
        one = save("one.yml", f"{GRANT}blocks: [{', '.join(entries)}]\n")
        with pytest.warns(ConfigWarning), start(one) as registry:
            for entry in entries:
                save(one, f"{GRANT}blocks: [{entry}]\n")
                registry.refresh()
                assert not can(registry)

    def test_what_a_file_declares_ends_where_a_reload_does_not_find_it_any_more(self, folder: Path) -> None:
        """A program that loads the files of its folder, one of which is removed; what others load stays."""
        save("tools.yml", BASE)
        for name in ("mcp.yml", "config.yml"):
            save(name, GRANT + "blocks: [{tool: b, agent: ann}]\ncategories: {}\n")
        with ToolRegistry(journal="runs.db") as registry:
            source = registry.configure_from()
            registry.configure_from("config.yml")
            for name, left in (("mcp.yml", ["config:config.yml"]), ("config.yml", ["config:config.yml"])):
                Path(name).unlink()
                source.refresh()
                assert left == [block.by for block in registry.state.get_access("ann", "b").blocks]
                assert len(left) == len(registry.grants())

    def test_without_a_journal_a_file_is_the_same_once_another_of_its_name_is_gone(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it grants keeps its count."""
        base, other = save("base.yml", BASE), save("x/g.yml", "limits: []\n")
        monkeypatch.setenv("PRAVAL_TOOLS_CONFIG", os.pathsep.join((base, other)))
        with ToolRegistry() as registry:
            source = registry.configure_from()
            grants = registry.configure_from(save("y/g.yml", "grants: [{tool: a, agent: ann, max_calls: 1}]\n"))
            assert can(registry)
            monkeypatch.setenv("PRAVAL_TOOLS_CONFIG", base)
            for one in (source, grants):
                one.refresh()
            assert not can(registry)

    def test_a_grant_comes_back_with_its_agent(self, folder: Path) -> None:
        """Both were taken out of the file at once: the grant ended with its entry, not for good with the agent."""
        text = GRANT + "agents: {ann: }\n"
        one = save("one.yml", text)
        with start(one) as registry:
            for content, is_allowed in (("agents: {bob: }\n", False), (text, True)):
                save(one, content)
                registry.refresh()
                assert is_allowed == can(registry)


class TestFilesOfLaterStarts:
    def test_what_a_file_declares_stays_while_it_is_left_out(self, folder: Path) -> None:
        """Another program may load it; an empty file of its name takes everything back."""
        one = save("one.yml", GRANT + "blocks: [{tool: b, agent: ann}]\n")
        with start(one):
            pass
        with start() as registry:
            assert can(registry)
        with start(save(one, "")) as registry:
            assert ([], ()) == (registry.grants(), registry.state.get_access("ann", "b").blocks)

    def test_a_grant_that_is_taken_out_with_its_tool_ends(self, folder: Path) -> None:
        """Also for a program that has the tool from another file."""
        one = save("one.yml", GRANT)
        with start(one):
            pass
        with ToolRegistry(journal="runs.db") as registry:
            registry.configure_from(save(one, "agents: {ann: }\n"))
        with start() as registry:
            assert not can(registry)
