"""Programs that share a journal, each with configurations: what one declares and takes back, the others see at once."""

# Tests of: change, access_plan, in_force, source

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from state_rig import path, shared  # noqa: F401  # fixtures

from praval_tools import Outcome, ToolCall, ToolRegistry
from praval_tools.config_loading.change import ConfigurationChange
from praval_tools.config_loading.source import ConfigurationSource, ConfigWarning
from praval_tools.registry.registry import get_runtime

GRANT, GRANT_2 = {"tool": "t1", "agent": "ann"}, {"tool": "t2", "agent": "ann"}
BLOCK = {"tool": "t1", "agent": "bank"}


def write(**sections: object) -> None:
    """Write the configuration that the programs have in common."""
    fields = {"module": "sums", "function": "add", "owned_by": "bank"}
    tools = [{"name": name, "category": name, **fields} for name in ("t1", "t2")]
    sections = {"tools": tools, "agents": {"bank": {}}, **sections}
    Path("c.yml").write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in sections.items()))


class Program:
    """A program with the configuration, beside others on the same journal."""

    def __init__(self, journal: Path | str) -> None:
        self.registry = ToolRegistry(journal=journal)
        source = self.registry.configure_from("c.yml")
        assert isinstance(source, ConfigurationSource)
        self.source = source

    def may(self, tool: str, agent: str = "ann") -> bool:
        """Tell whether a call is allowed."""
        return self.registry.execute(ToolCall(None, tool, {"x": 1}, agent)).outcome is Outcome.OK

    def load(self, **sections: object) -> None:
        """Change the file, and load it here."""
        write(**sections)
        self.source.refresh()


@pytest.fixture
def programs(shared: Path | str, folder: Path) -> Iterator[tuple[Program, Program]]:
    """Two programs on one journal."""
    write()
    one, two = Program(shared), Program(shared)
    yield one, two
    one.registry.close()
    two.registry.close()


class TestOtherProcesses:
    """What another program did a moment ago counts for what is loaded."""

    @pytest.mark.parametrize(
        ("sections", "tool", "agent", "allowed"),
        [
            ({"grants": [GRANT]}, "t1", "ann", True),
            ({"blocks": [BLOCK]}, "t1", "bank", False),
            ({"categories": {"t1": {"enabled": False}}}, "t1", "bank", False),
        ],
    )
    def test_what_one_declared_the_other_takes_back(
        self, programs: tuple[Program, Program], sections: dict[str, object], tool: str, agent: str, allowed: bool
    ) -> None:
        """Whoever loads the file without the entry ends it, for all; and who loads it with it makes it again."""
        one, two = programs
        for program, other in ((one, two), (two, one)):
            program.load(**sections)
            assert [allowed, allowed] == [program.may(tool, agent), other.may(tool, agent)]
            program.load()
            program.load(**sections)
            other.load()
            assert [not allowed] * 2 == [program.may(tool, agent), other.may(tool, agent)]

    def test_a_grant_to_whom_another_blocked_is_not_made(self, programs: tuple[Program, Program]) -> None:
        """With a warning, and the rest of the file counts; lifted by the other, it is made."""
        one, two = programs
        two.load(grants=[GRANT_2])
        one.registry.block("t1", "ann")
        with pytest.warns(ConfigWarning, match="'t1' to 'ann' is not made: a block"):
            two.load(grants=[GRANT])
        assert [False, False] == [two.may("t1"), two.may("t2")]
        one.registry.unblock("t1", "ann")
        two.load(grants=[GRANT])
        assert two.may("t1")

    def test_what_the_operator_did_elsewhere_stays(self, programs: tuple[Program, Program]) -> None:
        """A grant that was removed, and a block that was lifted."""
        one, two = programs
        for program in (one, two):
            program.load(grants=[GRANT], blocks=[BLOCK])
        one.registry.remove_tool_from_agent("t1", "ann")
        one.registry.unblock("t1", "bank")
        two.load(grants=[GRANT], blocks=[BLOCK], limits=[])
        assert [False, True] == [two.may("t1"), two.may("t1", "bank")]

    @pytest.mark.parametrize(
        "sections", [{"blocks": [BLOCK]}, {"categories": {"t1": {"enabled": False}}}], ids=["block", "category"]
    )
    @pytest.mark.parametrize("is_lifted", [False, True], ids=["of the file", "lifted by hand"])
    def test_what_another_took_out_and_is_put_back_is_in_force(
        self, programs: tuple[Program, Program], sections: dict[str, object], is_lifted: bool
    ) -> None:
        """Whichever program loads it first, also where somebody lifted it before it was taken out."""
        one, two = programs
        for _ in range(2):
            for program in programs:
                program.load(**sections)
            if is_lifted:
                one.registry.unblock("t1", "bank")
                one.registry.enable(category="t1")
                for program in programs:
                    program.load(**sections, limits=[])
                assert [True, True] == [one.may("t1", "bank"), two.may("t1", "bank")]
            two.load()
            assert [True, True] == [one.may("t1", "bank"), two.may("t1", "bank")]
            one.load(**sections)
            assert [False, False] == [one.may("t1", "bank"), two.may("t1", "bank")]
            one, two = two, one

    def test_what_was_lifted_while_it_came_and_went_stays_lifted(self, programs: tuple[Program, Program]) -> None:
        """A program that knew of the first of its blocks alone takes over that the last one was lifted."""
        one, two = programs
        sections = {"blocks": [BLOCK], "categories": {"t1": {"enabled": False}}}
        one.load(**sections)
        for content in ({}, sections):
            two.load(**content)
        two.registry.unblock("t1", "bank")
        two.registry.enable(category="t1")
        one.load(**sections, limits=[])
        assert [True, True] == [one.may("t1", "bank"), two.may("t1", "bank")]

    def test_what_a_process_of_its_own_did(self, folder: Path) -> None:
        """It blocks, and lifts the block again."""
        write(journal={"path": "runs.db"})
        with ToolRegistry.from_config("c.yml") as registry:
            for verb, allowed in (("block", False), ("unblock", True)):
                code = f"from praval_tools import ToolRegistry; ToolRegistry(journal='runs.db').{verb}('t1', 'ann')"
                subprocess.run([sys.executable, "-c", code], check=True)
                write(journal={"path": "runs.db"}, grants=[GRANT])
                with nullcontext() if allowed else pytest.warns(ConfigWarning, match="is not made: a block"):
                    registry.refresh()
                assert allowed is registry.explain("ann", "t1").allowed


class TestChangesWhileItIsLoaded:
    """Where another process changes something between the planning and the end, all of it is planned again."""

    CASES = (
        ({"grants": [GRANT]}, lambda other: other.registry.block("t1", "ann"), [False, False]),
        ({"grants": [GRANT]}, lambda other: other.load(grants=[GRANT, GRANT_2]), [True, False]),
        ({"grants": [GRANT]}, lambda other: other.load(blocks=[GRANT]), [True, False]),
        ({"agents": {"bank": {}, "new": {}}}, lambda other: other.load(grants=[GRANT]), [False, False]),
        ({"limits": []}, lambda other: other.load(grants=[GRANT]), [False, False]),
    )

    @pytest.mark.parametrize(
        ("sections", "step", "allowed"), CASES, ids=["block", "grant", "its block", "nothing stored", "nothing"]
    )
    @pytest.mark.filterwarnings("ignore::praval_tools.config_loading.source.ConfigWarning")
    def test_are_seen(
        self, programs: tuple[Program, Program], monkeypatch: pytest.MonkeyPatch, sections: dict[str, object],
        step: Callable[[Program], object], allowed: list[bool],
    ) -> None:  # fmt: skip
        """Nothing that the file does not declare stays, and no block is overlooked."""
        one, two = programs
        steps, refuse = [step], ConfigurationChange._refuse_problems

        def plan(change: ConfigurationChange, state: Any) -> Any:
            if steps:
                steps.pop()(one)
            return refuse(change, state)

        monkeypatch.setattr(ConfigurationChange, "_refuse_problems", plan)
        two.load(**sections)
        assert allowed == [two.may("t1"), two.may("t2")] == [one.may("t1"), one.may("t2")]


class TestFilesOfDifferentPrograms:
    """Two files that disable one category are two: it is enabled once neither does any more."""

    DISABLED, NOT_ANY_MORE = "categories: {t1: {enabled: false}}\n", "limits: []\n"

    @pytest.fixture
    def sources(
        self, programs: tuple[Program, Program], folder: Path
    ) -> list[tuple[Path, ConfigurationSource]]:  # fmt: skip
        """A file of each program, beside the one that they have in common."""
        files = [Path(name) for name in ("one.yml", "two.yml")]
        sources = list[ConfigurationSource]()
        for file, program in zip(files, programs, strict=True):
            file.write_text(self.DISABLED)
            source = program.registry.configure_from(file)
            assert isinstance(source, ConfigurationSource)
            sources.append(source)
        return list(zip(files, sources, strict=True))

    @pytest.mark.parametrize("loads_elsewhere", [False, True], ids=["its program", "a third program"])
    @pytest.mark.parametrize("first", [0, 1])
    def test_a_category_is_disabled_while_one_of_them_says_so(
        self, shared: Path | str, programs: tuple[Program, Program],
        sources: list[tuple[Path, ConfigurationSource]], first: int, *, loads_elsewhere: bool,
    ) -> None:  # fmt: skip
        """Whichever is taken back first, by whichever program; one that starts sees the same."""
        third = Program(shared)
        for number, (file, source) in enumerate((sources[first], sources[1 - first])):
            assert [False] * 3 == [program.may("t1", "bank") for program in (*programs, third)]
            file.write_text(self.NOT_ANY_MORE)
            third.registry.configure_from(file) if loads_elsewhere else source.refresh()
            started = Program(shared)
            allowed = number == 1
            assert [allowed] * 4 == [program.may("t1", "bank") for program in (*programs, third, started)]
            started.registry.close()
        third.registry.close()

    def test_who_enables_it_lifts_what_each_of_them_says(
        self, programs: tuple[Program, Program], sources: list[tuple[Path, ConfigurationSource]]
    ) -> None:
        """A reload leaves that alone; taken out of one of the files, and put back, it is disabled again."""
        programs[0].registry.disable(category="t1", reason="audit")
        programs[1].registry.enable(category="t1")
        for _, source in sources:
            source.refresh()
            assert [True, True] == [program.may("t1", "bank") for program in programs]
        file, source = sources[0]
        for text, allowed in ((self.NOT_ANY_MORE, True), (self.DISABLED, False)):
            file.write_text(text)
            source.refresh()
            assert [allowed] * 2 == [program.may("t1", "bank") for program in programs]

    def test_what_the_operator_disabled_too_stays_disabled(
        self, programs: tuple[Program, Program], sources: list[tuple[Path, ConfigurationSource]]
    ) -> None:
        """Also once neither file says so any more."""
        programs[1].registry.disable(category="t1", reason="audit")
        for file, source in sources:
            file.write_text(self.NOT_ANY_MORE)
            source.refresh()
        assert [False, False] == [program.may("t1", "bank") for program in programs]
        assert "audit" in programs[0].registry.explain("bank", "t1").reason

    def test_one_that_is_declared_while_another_is_taken_back(self, folder: Path) -> None:
        """Two configurations of one registry load at one moment, in two threads."""
        write()
        files = [Path(name) for name in ("one.yml", "two.yml")]
        with ToolRegistry.from_config("c.yml") as registry:
            for file, text in zip(files, (self.DISABLED, self.NOT_ANY_MORE), strict=True):
                file.write_text(text)
            one, two = map(registry.configure_from, files)
            for file, text in zip(files, (self.NOT_ANY_MORE, self.DISABLED), strict=True):
                file.write_text(text)
            thread = threading.Thread(target=one.refresh)
            with get_runtime(registry).access_store.lock():
                thread.start()
                thread.join(0.3)  # until it waits for the lock
                two.refresh()
            thread.join()
            assert not registry.explain("bank", "t1").allowed


class TestStarts:
    def test_a_grant_that_is_taken_out_ends_before_its_tool_comes(
        self, shared: Path | str, folder: Path
    ) -> None:  # fmt: skip
        """Where the program registers the tool after the file is loaded, too; put back into the file, it is made."""

        def look(x: float) -> float:
            """Look."""
            return x

        for grants, is_late in (([GRANT], False), ([], True), ([], False), ([GRANT], False)):
            write(tools=[], agents={"bank": {}, "ann": {}}, grants=grants)
            with ToolRegistry(journal=shared) as registry:
                if not is_late:
                    registry.tool("t1", owned_by="bank")(look)
                registry.configure_from("c.yml")
                if is_late:
                    registry.tool("t1", owned_by="bank")(look)
                assert bool(grants) is registry.explain("ann", "t1").allowed
                assert [] == registry.problems()

    @pytest.mark.parametrize("restarts", [False, True])
    def test_a_grant_that_was_revoked_stays_so_for_each_version_of_its_tool(
        self, shared: Path | str, folder: Path, *, restarts: bool
    ) -> None:
        """Also where the file is loaded without its entry, which ends nothing any more, and with it again."""
        tool = {"name": "t1", "module": "sums", "function": "add"}
        with_tool = [{"tools": [{**tool, "risk_level": risk}], "grants": [GRANT]} for risk in ("low", "high")]
        write(**with_tool[0])
        Program(shared).registry.close()
        write(**with_tool[1])
        program = Program(shared)
        assert [True] == [program.registry.revoke(grant) for grant in program.registry.grants()]
        program.load(tools=with_tool[1]["tools"])
        if restarts:
            program.registry.close()
            program = Program(shared)
        for sections in (*reversed(with_tool), {"tools": with_tool[0]["tools"]}, *with_tool):
            program.load(**sections)
            assert not program.may("t1")
        program.registry.close()

    def test_a_grant_that_was_taken_out_is_made_again_for_each_version(
        self, shared: Path | str, folder: Path
    ) -> None:  # fmt: skip
        """The file alone ended both, that of the tool of now and that of the one of before."""
        tool = {"name": "t1", "module": "sums", "function": "add"}
        for risk, grants in (("low", [GRANT]), ("high", [GRANT]), ("high", []), ("low", []), ("low", [GRANT])):
            write(tools=[{**tool, "risk_level": risk}], grants=grants)
            program = Program(shared)
            assert bool(grants) is program.may("t1")
            program.registry.close()

    def test_a_key_of_a_file_in_the_hands_of_an_agent(
        self, shared: Path | str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:  # fmt: skip
        """An agent that had lent with the key of an entry, as a journal may hold it, takes nothing from the file."""
        grants = [{**GRANT, "delegable": True}, {"tool": "t1", "agent": "eve"}]
        write(grants=grants)
        program = Program(shared)
        (key,) = [grant.key for grant in program.registry.grants(agent="eve")]
        with monkeypatch.context() as older:
            older.setattr("praval_tools.registry.access_changes.FILE_LABEL_PREFIX", "none:")
            program.registry.grant("t1", "bob", by="ann", key=key)
        program.load()
        program.registry.close()
        program = Program(shared)
        program.load(grants=grants)
        assert [True, True] == [program.may("t1"), program.may("t1", "eve")]
        program.registry.close()


class TestAgents:
    """An agent that two files declare is in force for each of them."""

    TOOL = "tools: [{{name: {}, module: sums, function: add, shared: true}}]\njournal: {{path: runs.db}}\n"

    def declare(self, tool: str, *agents: str) -> str:
        """Write the configuration of one program, and return its file."""
        Path(f"{tool}.yml").write_text(f"{self.TOOL.format(tool)}agents: {json.dumps(dict.fromkeys(agents, {}))}\n")
        return f"{tool}.yml"

    def may(self, registry: ToolRegistry, tool: str, agent: str = "clerk") -> bool:
        """Tell whether a call is allowed."""
        return registry.execute(ToolCall(None, tool, {"x": 1}, agent)).outcome is Outcome.OK

    def test_one_that_a_file_does_not_declare_any_more_stays_where_another_does(self, folder: Path) -> None:
        """It can call nothing more in the program of that file; put back into it, it can again."""
        shop = ToolRegistry.from_config(self.declare("shop", "clerk", "boss"))
        with shop, ToolRegistry.from_config(self.declare("mail", "clerk")) as mail:
            self.declare("shop", "boss")
            shop.refresh()
            assert (False, True) == (self.may(shop, "shop"), self.may(mail, "mail"))
            assert (["boss"], ["clerk"]) == (shop.agents, mail.agents)
            mail.refresh()
            assert self.may(mail, "mail")
            self.declare("shop", "clerk", "boss")
            shop.refresh()
            assert (True, True) == (self.may(shop, "shop"), self.may(mail, "mail"))

    def test_its_grants_wait_for_it(self, folder: Path) -> None:
        """Those of others count in other programs, and here again once it is declared again."""
        shop = ToolRegistry.from_config(self.declare("shop", "clerk"))
        with shop, ToolRegistry.from_config(self.declare("mail", "clerk")) as mail:
            shop.grant("shop", "clerk")
            mail.grant("mail", "clerk")
            self.declare("shop", "boss")
            shop.refresh()
            shop.unshare_tool("shop")
            mail.unshare_tool("mail")
            assert (False, True) == (self.may(shop, "shop"), self.may(mail, "mail"))
            self.declare("shop", "clerk")
            shop.refresh()
            assert self.may(shop, "shop")

    def test_one_that_the_operator_retired_stays_so(self, folder: Path) -> None:
        """In all programs, and over reloads."""
        shop = ToolRegistry.from_config(self.declare("shop", "clerk", "boss"))
        with shop, ToolRegistry.from_config(self.declare("mail", "clerk")) as mail:
            shop.retire_agent("clerk")
            for registry in (shop, mail):
                registry.refresh()
            assert (False, False) == (self.may(shop, "shop"), self.may(mail, "mail"))
