"""The commands that change access: a change is in force, recorded in the journal, and refused as a whole."""

# Tests of: change_command, grants, tool_state, journal_option

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_rig import BANK, App, Run, app, run  # noqa: F401

from praval_tools.journal import open_journal

DEFAULT = "praval_tools.db"
VERBS = ["assign", "unassign", "block", "unblock", "transfer", "share", "unshare", "disable", "enable"]
TWO = ("assign", "unassign", "block", "unblock", "transfer")


def app_at(app: App, source: str = BANK) -> tuple[str, str]:
    """Write an app, and return the option that names its registry."""
    return "--app", f"{app(source)}:registry"


def words(verb: str, tool: str) -> list[str]:
    """Return the arguments of *verb*, about the intern where it takes an agent."""
    return [verb, tool, "intern"] if verb in TWO else [verb, tool]


def types_in(path: str | Path = DEFAULT) -> list[str]:
    """Return the types of the events in a journal."""
    with open_journal(path) as journal:
        return [one.type.value for one in journal.read()]


class TestAssign:
    def test_it_counts_from_the_next_command_on(self, run: Run, app: App) -> None:
        """
        A tool that was assigned is there for why, list, matrix and call, each a process of its own.
        """
        at = app_at(app)
        assert run("why", "intern", "wire_money", *at)[0] == 3

        code, out, err = run("assign", "wire_money", "intern", "--max-calls", "2", *at)

        assert (code, out) == (0, "Assigned wire_money to intern: 2 calls.\n")
        assert err.startswith(
            "Recorded in the journal 'praval_tools.db'. Your program sees it with ToolRegistry(journal="
        )
        assert run("why", "intern", "wire_money", *at)[0] == 0
        assert "wire_money" in run("list", "--agent", "intern", *at)[1]
        assert run("call", "intern", "wire_money", "to=a", "amount=1", *at)[0] == 0
        assert "granted (1 left)" in run("matrix", *at)[1]
        assert run("call", "intern", "wire_money", "to=a", "amount=1", *at)[0] == 0
        assert run("call", "intern", "wire_money", "to=a", "amount=1", *at)[0] == 3

    def test_its_terms(self, run: Run, app: App) -> None:
        """
        Expiry, count, bounds, key and reason are those of the grant, and `--json` prints them.
        """
        at = app_at(app)
        bounds = '{"amount": {"maximum": 100}}'
        options = ("--expires", "2h", "--max-calls", "3", "--where", bounds, "--key", "k", "--delegable")
        code, out, _ = run("assign", "wire_money", "intern", *options, "--reason", "audit week", "--json", *at)
        found = json.loads(out)

        assert (code, found["done"], found["changed"], found["journal"]) == (0, "assign", True, DEFAULT)
        grant = found["grant"]
        assert (grant["key"], grant["max_calls"], grant["where"], grant["delegable"], grant["reason"]) == (
            "k", 3, {"amount": {"maximum": 100}}, True, "audit week",
        )  # fmt: skip
        assert grant["expires"] is not None
        assert run("why", "intern", "wire_money", "to=a", "amount=101", *at)[0] == 3
        assert run("why", "intern", "wire_money", "to=a", "amount=100", *at)[0] == 0

    def test_twice_without_limits_changes_nothing(self, run: Run, app: App) -> None:
        """
        What stands already is said, and not recorded again.
        """
        at = app_at(app)
        run("assign", "wire_money", "intern", *at)
        code, out, err = run("assign", "wire_money", "intern", *at)

        assert (code, out, err) == (0, "intern has wire_money already, without limits.\n", "")
        assert types_in() == ["tool_assigned"]

    def test_what_was_taken_is_given_back(self, run: Run, app: App) -> None:
        """
        An assignment of the operator's counts though an earlier process took the tool away.
        """
        at = app_at(app)
        run("unassign", "quote", "intern", *at)
        assert run("why", "intern", "quote", *at)[0] == 3

        assert run("assign", "quote", "intern", *at)[0] == 0
        assert run("why", "intern", "quote", *at)[0] == 0

    def test_a_block_is_not_lifted(self, run: Run, app: App) -> None:
        """
        Assigning what is blocked: exit code 3, the reason and the way out, and nothing is recorded.
        """
        at = app_at(app)
        run("block", "wire_money", "intern", "--reason", "gone bad", *at)
        code, out, err = run("assign", "wire_money", "intern", *at)

        assert (code, out) == (3, "")
        assert err == (
            "Error: intern is blocked from wire_money (by operator: gone bad). "
            f"Unblock it first: praval-tools {' '.join(at)} unblock wire_money intern. Nothing was changed.\n"
        )
        assert types_in() == ["tool_blocked"]

    def test_a_key_stands_for_one_grant(self, run: Run, app: App) -> None:
        """
        The same key is the same grant: it is not refilled, and once it is over it is refused.
        """
        at = app_at(app)
        grant = ("assign", "wire_money", "intern", "--key", "start", "--max-calls", "1", *at)
        run(*grant)
        assert run(*grant)[:2] == (0, "The grant with key 'start' exists already: 1 call.\n")

        run("call", "intern", "wire_money", "to=a", "amount=1", *at)
        code, _, err = run(*grant)
        assert code == 3
        assert "The grant with key 'start' has ended." in err
        code, _, err = run("assign", "quote", "treasurer", "--key", "start", *at)
        assert code == 2
        assert "key 'start' stands for the grant of 'wire_money' to 'intern'" in err

    def test_a_retired_agent_gets_nothing(self, run: Run, app: App) -> None:
        """
        Assigning to a retired agent is refused.
        """
        at = app_at(app, BANK + 'registry.retire_agent("treasurer")')
        code, _, err = run("assign", "quote", "treasurer", *at)

        assert code == 3
        assert "Agent 'treasurer' is retired" in err

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (["--expires", "soon"], "'soon' is not a valid time; write 90s, 15m, 2h, 7d, or 2026-12-31T18:00 (UTC)."),
            (["--expires", "2020-01-01"], "expires is not in the future"),
            (["--expires", "999999999w"], "is too long"),
            (["--max-calls", "0"], "0 is not in the range x>=1"),
            (["--where", "{"], "it is not valid JSON"),
            (["--where", '{"amount": {"maximum": 1}, "amount": {}}'], "'amount' twice"),
            (["--where", "amount<5"], """write for example '{"amount": {"maximum": 100}}'"""),
            (["--where", "[]"], "it is not a JSON object"),
            (["--where", '{"amont": {}}'], "amont"),
        ],
    )
    def test_terms_that_make_no_sense(self, run: Run, app: App, options: list[str], text: str) -> None:
        """
        Terms that cannot be meant are wrong usage, and no file is made for them.
        """
        code, out, err = run("assign", "wire_money", "intern", *options, *app_at(app))

        assert (code, out) == (2, "")
        assert text in err
        assert not Path(DEFAULT).exists()

    def test_notes(self, run: Run, app: App) -> None:
        """
        A misspelled agent, and a limit that narrows nothing, are done and said.
        """
        at = app_at(app)

        assert run("assign", "quote", "interne", *at)[2].startswith(
            "Note: no agent 'interne' is declared. Did you mean 'intern'?\n"
        )
        assert "This grant narrows nothing" in run("assign", "quote", "intern", "--max-calls", "1", *at)[2]
        run("disable", "quote", *at)
        assert "treasurer still cannot call it: The tool 'quote' is disabled" in run(
            "assign", "quote", "treasurer", *at)[2]  # fmt: skip


class TestOtherVerbs:
    @pytest.mark.parametrize(
        ("command", "text", "again", "kind"),
        [
            ("unassign quote intern", "Took quote from intern.", "quote was already taken from intern.", "unassigned"),
            ("block quote intern", "Blocked intern from quote.", "intern is already blocked from quote", "blocked"),
            (
                "transfer quote intern",
                "Transferred quote from nobody to intern.",
                "intern owns quote al",
                "transferred",
            ),
            ("share quote", "Shared quote with every agent.", "quote is shared already.", "shared"),
            ("unshare log", "Stopped sharing log.", "log is not shared.", "unshared"),
            ("disable prices", "Disabled the category prices.", "The category prices is disabled", "disabled"),
        ],
    )
    def test_once_is_enough(self, run: Run, app: App, command: str, text: str, again: str, kind: str) -> None:
        """
        The change is printed and recorded with its reason; repeated, it is reported as done already, and not recorded.
        """
        at = app_at(app)
        code, out, _ = run(*command.split(), "--reason", "why not", *at)
        assert (code, out) == (0, f"{text}\n")
        with open_journal(DEFAULT) as journal:
            (event,) = journal.events()
        assert (event.reason, event.by) == ("why not", "operator")
        assert types_in()[0].endswith(kind)

        code, out, err = run(*command.split(), *at)
        assert (code, err) == (0, "")
        assert out.startswith(again)
        assert len(types_in()) == 1

    def test_unblock(self, run: Run, app: App) -> None:
        """
        A block is lifted; where there is none, that is said and no file is made.
        """
        at = app_at(app)
        assert run("unblock", "quote", "intern", *at) == (0, "intern is not blocked from quote.\n", "")
        assert not Path(DEFAULT).exists()

        run("block", "quote", "intern", *at)
        assert run("why", "intern", "quote", *at)[0] == 3
        assert run("unblock", "quote", "intern", *at)[:2] == (0, "Unblocked intern from quote.\n")
        assert run("why", "intern", "quote", *at)[0] == 0

    def test_enable(self, run: Run, app: App) -> None:
        """
        What was switched off can be switched on; --kind says which of several things of one name.
        """
        at = app_at(app, BANK.replace('tags=["money"]', 'tags=["quote"]'))
        code, _, err = run("disable", "quote", *at)
        assert code == 2
        assert err.startswith("Error: 'quote' is several things (tool, tag); say which with --kind.")

        assert run("disable", "quote", "--kind", "tag", *at)[:2] == (0, "Disabled the tag quote.\n")
        assert run("why", "treasurer", "wire_money", *at)[0] == 3
        assert run("enable", "quote", "--kind", "tag", *at)[:2] == (0, "Enabled the tag quote.\n")
        assert run("enable", "quote", "--kind", "tag", *at)[:2] == (0, "The tag quote is not disabled.\n")
        assert run("why", "treasurer", "wire_money", *at)[0] == 0

    def test_what_is_no_category(self, run: Run, app: App) -> None:
        """
        A name that is nothing of that kind is a problem that names similar ones of the kind.
        """
        code, _, err = run("disable", "price", "--kind", "category", *app_at(app))

        assert (code, err) == (2, "Error: Category 'price' not found. Did you mean 'prices'?\n")

    @pytest.mark.filterwarnings("ignore::praval_tools.AccessWarning")
    def test_a_transfer_is_taken_back(self, run: Run, app: App) -> None:
        """
        An app that assigns in the name of the owner starts after a transfer, too, so that `transfer` takes it back.
        """
        source = BANK.replace('name="bank"', 'name="bank", journal="work.db"')
        start = 'registry.assign_tool_to_agent("wire_money", "intern", by="treasurer", max_calls=3, key="k")\n'
        at = app_at(app, f"{source}\n{start}")
        assert run("transfer", "wire_money", "zed", *at)[0] == 0

        code, _, err = run("why", "treasurer", "wire_money", *at)
        assert code == 3 and "NotOwnerError" not in err

        assert run("transfer", "wire_money", "treasurer", *at)[0] == 0
        assert run("why", "treasurer", "wire_money", *at)[0] == 0

    def test_transfer_is_seen(self, run: Run, app: App) -> None:
        """
        The new owner owns it in the next listing.
        """
        at = app_at(app)
        run("transfer", "wire_money", "intern", *at)

        (one,) = json.loads(run("list", "--owner", "intern", "--json", *at)[1])
        assert one["name"] == "wire_money"

    @pytest.mark.parametrize("verb", VERBS)
    def test_unknown_tool(self, run: Run, app: App, verb: str) -> None:
        """
        A tool that does not exist: exit code 2, near names, and no file is made.
        """
        code, out, err = run(*words(verb, "quotee"), *app_at(app))

        assert (code, out) == (2, "")
        assert err.startswith("Error: Tool ")
        assert "'quotee' not found. Did you mean 'quote'?" in err
        assert err.count("\n") == 1
        assert not Path(DEFAULT).exists()

    def test_what_is_gone_can_be_unblocked(self, run: Run, app: App) -> None:
        """
        A block, and a removal, outlast the tool and can be seen to still.
        """
        run("block", "quote", "intern", *app_at(app))
        at = app_at(app, BANK.replace('"quote"', '"price"'))

        assert run("unblock", "quote", "intern", *at)[:2] == (0, "Unblocked intern from quote.\n")

    @pytest.mark.parametrize("verb", TWO)
    def test_a_name_that_no_agent_can_have(self, run: Run, app: App, verb: str) -> None:
        """
        Such a name is wrong usage.
        """
        code, _, err = run(verb, "quote", "a:b", *app_at(app))

        assert code == 2
        assert "a:b" in err

    @pytest.mark.parametrize("verb", VERBS)
    def test_without_an_app(self, run: Run, verb: str) -> None:
        """
        Without a registry there is nothing to change.
        """
        assert run(*words(verb, "quote"))[0] == 2


class TestWhereItIsRecorded:
    def test_in_the_named_journal(self, run: Run, app: App) -> None:
        """
        --journal takes a path or a URL, before and after the command, and nothing else is made.
        """
        at = app_at(app)
        assert run("share", "quote", "--journal", "a.db", *at)[0] == 0
        assert run("--journal", "sqlite:///a.db", "block", "quote", "intern", *at)[0] == 0

        assert types_in("a.db") == ["tool_shared", "tool_blocked"]
        assert not Path(DEFAULT).exists()

    def test_in_the_registrys_own(self, run: Run, app: App) -> None:
        """
        The journal of the registry comes first, and that another one was named is said.
        """
        at = app_at(app, BANK.replace('(name="bank")', '(journal="own.db")'))

        assert run("share", "quote", *at)[2] == "Recorded in the journal 'own.db'.\n"
        assert "the registry has a journal of its own, own.db" in run(
            "block", "quote", "intern", "--journal", "b.db", *at)[2]  # fmt: skip
        assert types_in("own.db") == ["tool_shared", "tool_blocked"]
        assert not Path("b.db").exists() and not Path(DEFAULT).exists()

    @pytest.mark.parametrize(
        ("where", "text"),
        [
            ("memory", "A journal in memory ends with the command. Name a file: --journal PATH."),
            ("mysql://u:secret@host/db", "No journal can be kept in 'mysql'."),
            (":memory:", "A journal in memory is called 'memory'"),
        ],
    )
    def test_a_journal_that_cannot_record(self, run: Run, app: App, where: str, text: str) -> None:
        """
        A journal that cannot keep anything is wrong usage, and says no password.
        """
        code, out, err = run("share", "quote", "--journal", where, *app_at(app))

        assert (code, out) == (2, "")
        assert text in err
        assert "secret" not in err

    def test_a_registry_in_memory(self, run: Run, app: App) -> None:
        """
        Where the registry's own journal ends with the process nothing is done.
        """
        at = app_at(app, BANK.replace('(name="bank")', '(journal="memory")'))
        code, _, err = run("share", "quote", *at)

        assert code == 1
        assert "keeps its journal in memory" in err

    def test_a_change_that_was_not_recorded_is_a_problem(self, run: Run, app: App) -> None:
        """
        Where the journal fails and the registry continues, the command reports that the change was not recorded.
        """
        failing = """
from praval_tools.errors import JournalError
from praval_tools.journal import MemoryStore

class Full(MemoryStore):
    def append(self, items):
        raise JournalError(self.name, "the disk is full", "Free space.")
store = Full()
store.name = "full.db"
"""
        source = failing + BANK.replace('(name="bank")', '(journal=store, journal_errors="continue")')
        code, out, err = run("share", "quote", *app_at(app, source))

        assert (code, out) == (1, "")
        assert err.startswith("Error: It was not recorded: Journal 'full.db': the disk is full.")

    def test_a_file_of_another_program(self, run: Run, app: App) -> None:
        """
        A foreign file is refused in one line and left unchanged, by commands that change and commands that look.
        """
        Path("notes.db").write_bytes(b"these are my notes\n" * 100)
        for command in (["share", "quote"], ["list"], ["call", "intern", "quote", "symbol=a"]):
            code, out, err = run(*command, "--journal", "notes.db", *app_at(app))

            assert (code, out) == (1, "")
            assert err.startswith("Error: Journal 'notes.db': it is not a database.")
            assert err.count("\n") == 1
        assert Path("notes.db").read_bytes() == b"these are my notes\n" * 100
        assert [one.name for one in Path().glob("notes*")] == ["notes.db"]


class TestLookingAndCalling:
    @pytest.mark.parametrize("command", ["list", "agents", "matrix", "check", "show quote", "why intern quote"])
    def test_looking_makes_no_file(self, run: Run, app: App, command: str) -> None:
        """
        A listing works without a journal and makes none; one that was named and is not there is a problem.
        """
        at = app_at(app)
        assert run(*command.split(), *at)[0] == 0
        assert run(*command.split(), "--journal", "a.db", *at) == (
            1, "", "Error: There is no journal 'a.db'. Check the path.\n"
        )  # fmt: skip
        assert [] == list(Path().glob("*.db*"))

    def test_an_empty_file_is_no_journal_yet(self, run: Run, app: App) -> None:
        """
        A listing leaves an empty file as it is.
        """
        Path(DEFAULT).touch()

        assert run("list", *app_at(app))[0] == 0
        assert Path(DEFAULT).stat().st_size == 0

    def test_a_call_without_a_journal(self, run: Run, app: App) -> None:
        """
        Calling works without a journal, and makes none unless one is named; with one the call is recorded.
        """
        call = ("call", "intern", "quote", "symbol=a", *app_at(app))
        assert run(*call)[:2] == (0, "a 1\n")
        assert [] == list(Path().glob("*.db*"))

        assert run(*call, "--journal", "a.db")[:2] == (0, "a 1\n")
        assert types_in("a.db") == ["agent_tool_call", "agent_tool_result"]
        assert run("call", "intern", "wire_money", "--journal", "a.db", *call[4:])[0] == 3
        assert types_in("a.db")[2:] == ["call_refused"]
