"""`journal` and `stats`; what every command on a journal says where there is none, or a hostile one."""

# Tests of: journal, stats, times, report/event_text

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_journal_rig import JOURNAL, WORK, fill_journal, list_calls_in_doubt, run_app
from cli_rig import ENV, App, Run, app, run  # noqa: F401

from praval_tools.journal import Item, Record, open_journal, open_store


class TestWithoutJournal:
    @pytest.mark.parametrize(
        "command",
        ["audit", "runs", "runs show x", "runs resolve x y --rerun", "journal", "journal path", "stats", "approvals",
         "approvals list", "approvals approve x", "approvals deny x", "journal prune --older-than 1d --yes"],
    )  # fmt: skip
    def test_it_says_what_to_do(self, run: Run, app: App, tmp_path: Path, command: str) -> None:
        """
        Where there is no journal: one line with the fix, exit code 1, and none is made.
        """
        app()
        text = "Error: There is no journal 'praval_tools.db' in this folder. Name yours: --journal PATH.\n"

        assert run(*command.split()) == (1, "", text)
        assert [] == list(tmp_path.glob("*.db*"))

    @pytest.mark.parametrize("content", [b"notes", b"these are my notes\n" * 100])
    @pytest.mark.parametrize("command", ["audit", "runs", "journal", "stats"])
    def test_a_file_of_another_program(self, run: Run, app: App, command: str, content: bytes) -> None:
        """
        A foreign file is refused in one line and left as it is.
        """
        app()
        Path("notes.db").write_bytes(content)
        code, out, err = run(command, "--journal", "notes.db")

        assert (code, out) == (1, "")
        assert err.startswith("Error: Journal 'notes.db': it is not a database.")
        assert err.count("\n") == 1
        assert Path("notes.db").read_bytes() == content

    def test_a_torn_file(self, run: Run, app: App) -> None:
        """
        A journal that was cut is refused in one line and left as it is.
        """
        app()
        fill_journal("work.db", 500)
        whole = Path("work.db").read_bytes()
        Path("work.db").write_bytes(whole[: len(whole) // 2])
        code, out, err = run("audit", *JOURNAL)

        assert (code, out) == (1, "")
        assert "it is damaged" in err and err.count("\n") == 1
        assert Path("work.db").read_bytes() == whole[: len(whole) // 2]

    def test_a_registry_in_memory(self, run: Run, app: App) -> None:
        """
        Of a journal in memory nothing is left to read.
        """
        name = app(WORK.replace('"work.db"', '"memory"'))
        code, _, err = run("audit", "--app", f"{name}:registry")

        assert code == 1
        assert "keeps its journal in memory" in err


class TestJournal:
    def test_what_it_holds(self, run: Run, app: App) -> None:
        """
        Path, size, events, runs, calls in doubt, revision.
        """
        run_app(app, "half", crash="last")
        found = json.loads(run("journal", "--json", *JOURNAL)[1])

        assert found.pop("size") > 0
        assert found == {
            "path": str(Path("work.db").resolve()), "events": 10, "runs": 1, "in_doubt": 1, "revision": 0,
        }  # fmt: skip
        assert run("journal", *JOURNAL)[1].splitlines()[2].split() == ["events", "10"]
        assert run("journal", "path", *JOURNAL) == (0, f"{Path('work.db').resolve()}\n", "")

    def test_prune(self, run: Run, app: App) -> None:
        """
        What is old is forgotten, calls in doubt are not; how many events went is said.
        """
        run_app(app, "half", crash="last")
        fill_journal("work.db", 20)
        code, out, _ = run("journal", "prune", "--older-than", "1s", "--yes", *JOURNAL)
        assert code == 0
        assert out.startswith("Deleted 20 events from before ")
        assert out.endswith("UTC; 10 are left.\n")
        assert len(list_calls_in_doubt(run, "half")) == 1
        found = json.loads(run("journal", "prune", "--older-than", "1s", "--yes", "--json", *JOURNAL)[1])
        assert (found["gone"], found["left"]) == (0, 10)

    def test_prune_asks(self, run: Run, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        In a terminal it asks first; where nobody can answer --yes is needed.
        """
        app()
        fill_journal("work.db", 20)
        prune = ("journal", "prune", "--older-than", "1d", *JOURNAL)
        assert run(*prune) == (2, "", "Error: Deleted events cannot be restored; confirm with --yes.\n")

        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "n")
        code, out, err = run(*prune)
        assert (code, out, err.endswith("Error: Nothing was deleted.\n")) == (1, "", True)
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "y")
        assert run(*prune)[1].startswith("Deleted 20 events")

    @pytest.mark.parametrize("span", ["", "old", "-1d", "999999999w", "2026-01-01"])
    def test_prune_of_no_span(self, run: Run, app: App, span: str) -> None:
        """
        What is not a time span is wrong usage.
        """
        app()
        fill_journal("work.db", 1)

        assert run("journal", "prune", "--older-than", span, "--yes", *JOURNAL)[0] == 2


class TestStats:
    def test_as_the_journal_counts(self, run: Run, app: App) -> None:
        """
        The figures are those of the journal's own statistics.
        """
        run_app(app, "r")
        found = json.loads(run("stats", "--json", *JOURNAL)[1])

        with open_journal("work.db") as journal:
            assert found == journal.stats().get_all_stats()
        assert found["look"]["outcomes"] == {"ok": 2, "tool_error": 1}
        code, out, err = run("stats", *JOURNAL)
        assert (code, err) == (0, "")
        assert [line.split()[:4] for line in out.splitlines()] == [
            ["tool", "uses", "ok", "failed"], ["both", "1", "1", "0"], ["look", "3", "2", "1"], ["pay", "2", "2", "0"],
        ]  # fmt: skip
        assert out.splitlines()[2].endswith("1 tool_error")

    def test_filters(self, run: Run, app: App) -> None:
        """
        By tool, and by agent; where nothing is left that is said, with near names.
        """
        run_app(app, "r")

        assert list(json.loads(run("stats", "--json", "--tool", "pay", *JOURNAL)[1])) == ["pay"]
        assert json.loads(run("stats", "--json", "--agent", "clerk", *JOURNAL)[1])["pay"]["uses"] == 2
        assert run("stats", "--agent", "clark", *JOURNAL) == (
            0, "", "No use by 'clark' is recorded. Did you mean 'clerk'?\n"
        )  # fmt: skip
        assert run("stats", "--tool", "x", "--agent", "clerk", *JOURNAL)[2] == (
            "No use of 'x' by 'clerk' is recorded.\n"
        )  # fmt: skip


HOSTILE = "\x1b[31m[red]evil\x9b2J\u202e\nnext"


class TestHostileText:
    def test_is_shown_and_never_interpreted(self, run: Run, app: App) -> None:
        """
        Names, ids and errors of strangers reach no terminal as they are, in any command.
        """
        app()
        when = datetime(2026, 1, 1, tzinfo=UTC)
        head = {
            "v": 1, "id": "e", "time": when.isoformat(), "process": "p", "tool_call_id": HOSTILE, "run_id": HOSTILE,
            "tool_name": HOSTILE, "agent": HOSTILE, "arguments": {HOSTILE: HOSTILE},
        }  # fmt: skip
        known = {"process": "p", "run_id": HOSTILE, "call_id": HOSTILE, "agent": HOSTILE, "tool": HOSTILE}
        began = json.dumps({**head, "type": "agent_tool_call"}).encode()
        head.pop("arguments")
        ended = {**head, "type": "agent_tool_result", "outcome": "tool_error", "result": None, "error": HOSTILE,
                 "error_type": HOSTILE, "latency_ms": 1.0}  # fmt: skip
        store = open_store("work.db")
        store.append([Item((Record(type="agent_tool_call", body=began, id="a", time=when, attempt=0, **known),))])
        commands = [["audit"], ["runs"], ["runs", "show", HOSTILE], ["runs", "show", "x" + HOSTILE], ["stats"],
                    ["journal"], ["runs", "resolve", HOSTILE, "no" + HOSTILE, "--rerun"], ["stats", "--agent", HOSTILE],
                    ["audit", "--since", HOSTILE]]  # fmt: skip
        for _ in range(2):
            for command in commands:
                for more in ([], ["--json"]):
                    _, out, err = run(*command, *more, *JOURNAL)
                    for sign in ("\x1b", "\x9b", "\u202e"):
                        assert sign not in out + err, (command, more)
            body = json.dumps(ended).encode()
            store.append([Item((Record(type="agent_tool_result", body=body, id="b", time=when, attempt=1, **known),))])
        store.close()
        assert "\\x1b[31m[red]evil\\x9b2J\\u202e next" in run("audit", *JOURNAL)[1]
