"""What the command line tells of a journal: audit, runs, journal, stats; and that it harms and believes none."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli_rig import ENV, App, Run, app, run  # noqa: F401

from praval_tools.journal import Item, Record, open_journal, open_store

WORK = """
import os, sys
from praval_tools import Agent, ToolCall, ToolRegistry

registry = ToolRegistry(journal="work.db")
clerk = Agent("clerk", registry=registry)

@registry.tool("pay", owned_by="clerk")
def pay(to: str) -> str:
    "Pay somebody."
    if os.environ.get("CRASH") == to:
        os._exit(9)
    return f"paid {to}"

@registry.tool("look", owned_by="clerk", idempotent=True)
def look(name: str) -> str:
    "Look somebody up."
    if os.environ.get("CRASH") == name:
        os._exit(9)
    if name == "nobody":
        raise ValueError("[red]no \\x1b[31m such")
    return name.upper()

@registry.tool("both", owned_by="clerk")
def both(name: str) -> str:
    "Look, then pay."
    return clerk.call("pay", to=clerk.call("look", name=name))

def work(run):
    with registry.run(run):
        for tool, arguments in (
            ("both", {"name": "ann"}), ("look", {"name": "nobody"}), ("\\x1b[31mevil[red]", {}),
            ("look", {"name": "last"}), ("pay", {"to": "last"}),
        ):
            clerk.execute(ToolCall(name=tool, arguments=arguments))

if __name__ == "__main__":
    work(sys.argv[1])
"""
JOURNAL = ("--journal", "work.db")


def worked(app: App, run_id: str, crash: str = "") -> str:
    """Have a process of its own do its work in a run, and be killed at the call that *crash* says; returns the app."""
    name = app(WORK)
    env = {**ENV, "CRASH": crash}
    done = subprocess.run([sys.executable, f"{name}.py", run_id], env=env, capture_output=True, timeout=60)
    assert done.returncode == (9 if crash else 0), done.stderr
    return name


def in_doubt(run: Run, run_id: str) -> list[str]:
    """Return the ids of the calls of a run that are in doubt."""
    calls = json.loads(run("runs", "show", run_id, "--json", *JOURNAL)[1])["calls"]
    return [one["tool_call_id"] for one in calls if one["in_doubt"]]


def events(run: Run, *options: str) -> list[dict[str, object]]:
    """Return what `audit --json` prints."""
    code, out, err = run("audit", "--json", *JOURNAL, *options)
    assert code == 0, err
    return [json.loads(one) for one in out.splitlines()]


def fill(path: str, count: int, size: int = 10) -> None:
    """Write so many results into a journal, one a second from the beginning of 2026, each of so many bytes more."""
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def items() -> Iterator[Item]:
        for number in range(count):
            when = start + timedelta(seconds=number)
            body = {
                "v": 1, "type": "agent_tool_result", "id": f"e{number}", "time": when.isoformat(), "process": "p",
                "tool_call_id": f"c{number}", "tool_name": "look", "agent": "clerk", "outcome": "ok",
                "result": "x" * size, "error": None, "latency_ms": float(number % 100),
            }  # fmt: skip
            yield Item((
                Record(
                    type="agent_tool_result", body=json.dumps(body).encode(), id=f"e{number}", time=when, process="p",
                    call_id=f"c{number}", agent="clerk", tool="look", attempt=1,
                ),
            ))  # fmt: skip

    store = open_store(path)
    store.append(list(items()))
    store.close()


class TestWithoutJournal:
    @pytest.mark.parametrize(
        "command",
        ["audit", "runs", "runs show x", "runs resolve x y --rerun", "journal", "journal path", "stats",
         "journal prune --older-than 1d --yes"],
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
        fill("work.db", 500)
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


class TestAudit:
    def test_a_line_per_event(self, run: Run, app: App) -> None:
        """
        In a pipe each event is one whole line: time, place, who, tool, what, why.
        """
        worked(app, "r")
        code, out, err = run("audit", *JOURNAL)
        lines = out.splitlines()

        assert (code, err) == (0, "")
        assert lines[0].split() == ["time", "seq", "who", "tool", "what", "why"]
        assert [line.split(maxsplit=4)[1:4] for line in lines[1:4]] == [
            ["1", "clerk", "both"], ["2", "clerk", "look"], ["3", "clerk", "look"],
        ]  # fmt: skip
        assert lines[1].split()[4:] == ["call", "owner"]
        assert "tool_error" in out and "ValueError: [red]no \\x1b[31m such" in out
        assert "\\x1b[31mevil[red]" in out
        assert "\x1b" not in out

    def test_json_lines(self, run: Run, app: App) -> None:
        """
        --json prints one event per line with its place, in order, and what is hostile is escaped.
        """
        worked(app, "r")
        found = events(run)

        assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
        assert [one["run_seq"] for one in found] == list(range(1, len(found) + 1))
        assert {one["run_id"] for one in found} == {"r"}
        assert "\x1b" not in run("audit", "--json", *JOURNAL)[1]

    def test_filters(self, run: Run, app: App) -> None:
        """
        Each filter narrows, and they combine.
        """
        name = worked(app, "r")
        worked(app, "s")
        run("share", "look", "--app", f"{name}:registry")

        assert {one["tool_name"] for one in events(run, "--tool", "pay")} == {"pay"}
        assert {one["outcome"] for one in events(run, "--outcome", "tool_error")} == {"tool_error"}
        assert [one["type"] for one in events(run, "--type", "tool_shared")] == ["tool_shared"]
        assert {one["run_id"] for one in events(run, "--run", "s")} == {"s"}
        assert len(events(run, "--run", "s", "--tool", "pay", "--outcome", "ok")) == 2
        assert events(run, "--agent", "nobody") == []
        assert run("audit", *JOURNAL, "--agent", "nobody") == (0, "", "No such events.\n")

    def test_times(self, run: Run, app: App) -> None:
        """
        --since and --until take spans and moments; the first is included, the second is not.
        """
        app()
        fill("work.db", 100)

        assert len(events(run, "--since", "2026-01-01T00:01:00")) == 40
        assert len(events(run, "--since", "2026-01-01T00:01:00Z", "--until", "2026-01-01T02:01:10+02:00")) == 10
        assert len(events(run, "--since", "20000d")) == 100
        assert events(run, "--since", "1s") == []

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (["--since", "yesterday"], "'yesterday' is no time; write 90s, 15m, 2h, 7d, or 2026-12-31T18:00 (UTC)."),
            (["--since", "99999999w"], "is too long ago"),
            (["--outcome", "fine"], "'fine' is not one of 'ok'"),
            (["--type", "call"], "'call' is not one of 'agent_tool_call'"),
            (["--limit", "0"], "0 is not in the range x>=1"),
            (["--since", "2026-02-01", "--until", "2026-01-01"], "is not before --until"),
        ],
    )
    def test_wrong_options(self, run: Run, app: App, options: list[str], text: str) -> None:
        """
        What cannot be meant is wrong usage, in one line.
        """
        app()
        fill("work.db", 1)
        code, out, err = run("audit", *JOURNAL, *options)

        assert (code, out) == (2, "")
        assert text in err and err.count("\n") == 1

    @pytest.mark.parametrize("count", [1, 99, 100, 101, 1_000])
    def test_limit_gives_the_latest(self, run: Run, app: App, count: int) -> None:
        """
        --limit gives the latest that fit, in order, however many there are and however rare they are.
        """
        app()
        fill("work.db", count)

        assert [one["seq"] for one in events(run, "--limit", "3")] == list(range(1, count + 1))[-3:]
        assert [one["seq"] for one in events(run, "--limit", "2", "--until", "2026-01-01T00:00:05")] == [
            *range(1, count + 1)][:5][-2:]  # fmt: skip
        assert events(run, "--limit", "2", "--outcome", "timeout") == []

    def test_a_terminal_of_80_columns(self, app: App) -> None:
        """
        In a terminal each event is one line of at most 80 columns, below its day.
        """
        worked(app, "r")
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "audit", *JOURNAL],
            env={**ENV, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        lines = [line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
                 for line in done.stdout.splitlines()]  # fmt: skip

        assert lines[0].rstrip().endswith("(UTC)")
        assert len(lines) == 1 + 13
        assert max(map(len, lines)) <= 80
        assert all(line[:2].isdigit() for line in lines)

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
    def test_memory_does_not_grow_with_the_journal(self, app: App) -> None:
        """
        A journal of 30 MB is printed in the memory that one of 0.6 MB takes, and 10 MB more at most.
        """
        app()
        script = (
            "import sys\n"
            "from praval_tools.cli import main\n"
            "try: main(sys.argv[1:])\n"
            "except SystemExit: pass\n"
            "status = open('/proc/self/status').read().split()\n"
            "print(status[status.index('VmHWM:') + 1], file=sys.stderr)\n"
        )
        peaks = []
        for path, count in (("small.db", 300), ("big.db", 15_000)):
            fill(path, count, size=2_000)
            for options in (["audit", "--json"], ["stats"]):
                done = subprocess.run(
                    [sys.executable, "-c", script, *options, "--journal", path],
                    env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120,
                )  # fmt: skip
                peaks.append(int(done.stderr))

        assert max(peaks[2] - peaks[0], peaks[3] - peaks[1]) < 10_000

    def test_a_damaged_event_hides_no_other(self, run: Run, app: App) -> None:
        """
        An event that cannot be read is shown as that, the others as ever, and the exit code is 1.
        """
        app()
        fill("work.db", 5)
        with sqlite3.connect("work.db") as connection:
            connection.execute("UPDATE journal_events SET body = ? WHERE seq = 2", (b'{"v": 1, \x1b[31m',))
            connection.execute("UPDATE journal_events SET body = ? WHERE seq = 3", (b'{"v": 99, "type": "new"}',))
        connection.close()
        code, out, err = run("audit", *JOURNAL)

        assert (code, err) == (1, "Error: 2 events could not be read; --json shows what is there.\n")
        assert [line.split()[4].rstrip(",") for line in out.splitlines()[1:]] == [
            "ok", "unreadable", "unreadable", "ok", "ok",
        ]  # fmt: skip
        code, out, _ = run("audit", "--json", *JOURNAL)
        assert code == 1
        assert json.loads(out.splitlines()[1])["damaged"] == '{"v": 1, \x1b[31m'
        assert "\x1b" not in out
        assert run("stats", *JOURNAL)[0] == 1

    def test_interrupt_and_broken_pipe(self, app: App) -> None:
        """
        Ctrl-C ends it with 130 and one line, a reader that leaves with 141 and none.
        """
        app()
        fill("work.db", 5_000)
        command = [sys.executable, "-m", "praval_tools", "audit", *JOURNAL]
        running = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert running.stdout is not None and running.stdout.readline().startswith("time")
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        assert (running.returncode, err.strip()) == (130, "Stopped: interrupted.")

        shell = f"{' '.join(command)} | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", shell], env=ENV, capture_output=True, text=True, timeout=60)
        assert (done.stdout.splitlines()[-1], done.stderr) == ("141", "")


class TestRuns:
    def test_list(self, run: Run, app: App) -> None:
        """
        Each run with its first and last event, its calls, and how many are in doubt.
        """
        worked(app, "whole")
        worked(app, "half", crash="last")

        out = run("runs", *JOURNAL)[1].splitlines()
        assert [(line.split()[0], *line.split()[-2:]) for line in out[1:]] == [("whole", "6", "-"), ("half", "5", "1")]
        found = json.loads(run("runs", "--json", *JOURNAL)[1])
        assert [(one["run_id"], one["calls"], one["in_doubt"]) for one in found] == [("whole", 6, 0), ("half", 5, 1)]

    def test_none(self, run: Run, app: App) -> None:
        """
        A journal without runs says so.
        """
        app()
        fill("work.db", 1)

        assert run("runs", *JOURNAL) == (0, "", "No runs are recorded.\n")
        assert run("runs", "--json", *JOURNAL) == (0, "[]\n", "")

    def test_show(self, run: Run, app: App) -> None:
        """
        A run is a tree: what was called inside a call stands below it, hostile names and errors are escaped.
        """
        worked(app, "half", crash="last")
        (doubtful,) = in_doubt(run, "half")
        code, out, err = run("runs", "show", "half", *JOURNAL)
        lines = out.splitlines()

        assert (code, err) == (0, "")
        assert lines[0] == "half: 6 calls, 5 with a result to replay, 1 in doubt"
        assert [line[2:].split("(")[0] for line in lines[2:8]] == [
            "both", "  look", "  pay", "look", "\\x1b[31mevil[red]", "look",
        ]  # fmt: skip
        assert "[red]no \\x1b[31m such" in out and "\x1b" not in out
        assert f"praval-tools runs resolve half {doubtful} --result JSON | --error TEXT | --rerun" in out

    def test_show_as_json(self, run: Run, app: App) -> None:
        """
        Each call with arguments, decision, outcome, result, times, and whether it is replayed or in doubt.
        """
        worked(app, "half", crash="last")
        calls = json.loads(run("runs", "show", "half", "--json", *JOURNAL)[1])["calls"]

        first, last = calls[0], calls[-1]
        assert (first["tool_name"], first["result"], first["replays"]) == ("both", "paid ANN", True)
        assert calls[1]["parent_id"] == first["tool_call_id"]
        assert (last["arguments"], last["outcome"], last["replays"]) == ({"name": "last"}, None, False)

    def test_show_in_a_terminal_of_80_columns(self, app: App) -> None:
        """
        No line of the tree is wider than the terminal.
        """
        worked(app, "half", crash="last")
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "runs", "show", "half", *JOURNAL],
            env={**ENV, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        text = done.stdout
        for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
            text = text.replace(code, "")

        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= 80

    @pytest.mark.parametrize("command", ["show {}", "resolve {} c --rerun", "replay {} --dry"])
    def test_unknown_run(self, run: Run, app: App, command: str) -> None:
        """
        A run that is not recorded is a problem that names similar ones.
        """
        name = worked(app, "night-1")
        code, out, err = run("runs", *command.format("nigth-1").split(), "--app", f"{name}:registry")

        assert (code, out, err) == (1, "", "Error: No run 'nigth-1' is recorded. Did you mean 'night-1'?\n")

    def test_unknown_command(self, run: Run) -> None:
        """
        A mistyped command of `runs` names the right one.
        """
        assert run("runs", "shwo") == (
            2, "", "Error: No such command 'shwo'; there is show. See: praval-tools runs --help\n"
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("answer", "outcome", "ran"),
        [
            (["--result", '"paid by hand"'], "ok", False),
            (["--error", "the bank \x1b[31mwas closed"], "tool_error", False),
            (["--rerun"], "ok", True),
        ],
    )
    def test_resolve(self, run: Run, app: App, answer: list[str], outcome: str, ran: bool) -> None:
        """
        What was said of a call in doubt is what the next start of the run goes by.
        """
        name = worked(app, "r", crash="ANN")
        doubtful = in_doubt(run, "r")
        assert len(doubtful) == 2  # the payment, and the call around it
        inner = doubtful[-1]
        code, out, err = run("runs", "resolve", "r", inner, *answer, *JOURNAL)

        assert (code, err) == (0, "")
        assert out.startswith(f"Recorded: call {inner} of run r ")
        assert in_doubt(run, "r") == doubtful[:1]
        assert run("runs", "resolve", "r", doubtful[0], "--rerun", *JOURNAL)[0] == 0
        done = subprocess.run([sys.executable, f"{name}.py", "r"], env=ENV, capture_output=True, timeout=60)
        assert done.returncode == 0
        calls = json.loads(run("runs", "show", "r", "--json", *JOURNAL)[1])["calls"]
        paid = next(one for one in calls if one["tool_call_id"] == inner)
        assert paid["outcome"] == outcome
        assert (paid["result"] == "paid ANN") is ran

    def test_what_cannot_be_resolved(self, run: Run, app: App) -> None:
        """
        A call that is not in doubt is a problem; not exactly one answer, or no JSON, is wrong usage.
        """
        worked(app, "half", crash="last")
        (doubtful,) = in_doubt(run, "half")
        resolve = ("runs", "resolve", "half")

        code, _, err = run(*resolve, "nope", "--rerun", *JOURNAL)
        assert (code, f"in doubt are: '{doubtful}'" in err) == (1, True)
        for options in ([], ["--rerun", "--error", "x"]):
            code, _, err = run(*resolve, doubtful, *options, *JOURNAL)
            assert (code, "Say one of --result JSON, --error TEXT, --rerun." in err) == (2, True)
        for text in ("hello", "NaN", "[" * 100_000):
            code, _, err = run(*resolve, doubtful, "--result", text, *JOURNAL)
            assert (code, "--result is no JSON" in err) == (2, True)
        assert in_doubt(run, "half") == [doubtful]

    def test_a_run_that_is_open(self, run: Run, app: App) -> None:
        """
        Of a run that is open somewhere nothing can be resolved; the error says where it is open.
        """
        worked(app, "half", crash="last")
        (doubtful,) = in_doubt(run, "half")
        with open_journal("work.db") as journal, journal.store.open_run("half"):
            code, _, err = run("runs", "resolve", "half", doubtful, "--rerun", *JOURNAL)

        assert code == 1
        assert f"Run 'half' is open in process {os.getpid()}" in err

    def test_dry_replay(self, run: Run, app: App) -> None:
        """
        It says which calls get their recorded result, run again, or stop the run; nothing is run or written.
        """
        name = worked(app, "idempotent", crash="last")
        worked(app, "stops", crash="ANN")
        at = ("--app", f"{name}:registry")

        def fates(run_id: str, *options: str) -> tuple[int, list[str]]:
            code, out, _ = run("runs", "replay", run_id, "--dry", "--json", *options)
            return code, [f"{one['tool']}: {one['word']}" for one in json.loads(out)["calls"]][-3:]

        before = len(events(run))
        assert fates("idempotent", *at)[0] == 0
        assert fates("idempotent", *at)[1][-1] == "look: runs again"
        assert fates("stops", *at) == (1, ["both: stops", "look: replays", "pay: stops"])
        assert "in doubt, and its tool is not idempotent" in run("runs", "replay", "stops", "--dry", *at)[1]
        assert len(events(run)) == before
        changed = WORK.replace('name: str) -> str:\n    "Look s', 'name: str, x: int = 1) -> str:\n    "Look s')
        other = changed.replace('"pay", owned', '"transfer", owned').replace('journal="work.db"', 'name="x"')
        out = run("runs", "replay", "stops", "--dry", "--app", f"{app(other)}:registry", *JOURNAL)[1]
        assert "its definition has changed; the recorded result stays" in out
        assert "in doubt, and there is no tool 'pay' any more" in out

    def test_replay_is_the_programs(self, run: Run, app: App) -> None:
        """
        Without --dry it is wrong usage that says who replays; without --app it is, too.
        """
        worked(app, "r")
        code, _, err = run("runs", "replay", "r", *JOURNAL)
        assert (code, "with registry.run('r'): ..." in err) == (2, True)
        code, _, err = run("runs", "replay", "r", "--dry", *JOURNAL)
        assert (code, "Which registry?" in err) == (2, True)


class TestJournal:
    def test_what_it_holds(self, run: Run, app: App) -> None:
        """
        Path, size, events, runs, calls in doubt, revision.
        """
        worked(app, "half", crash="last")
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
        worked(app, "half", crash="last")
        fill("work.db", 20)
        code, out, _ = run("journal", "prune", "--older-than", "1s", "--yes", *JOURNAL)
        assert code == 0
        assert out.startswith("Forgot 20 events from before ")
        assert out.endswith("UTC; 10 are left.\n")
        assert len(in_doubt(run, "half")) == 1
        found = json.loads(run("journal", "prune", "--older-than", "1s", "--yes", "--json", *JOURNAL)[1])
        assert (found["gone"], found["left"]) == (0, 10)

    def test_prune_asks(self, run: Run, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        In a terminal it asks first; where nobody can answer --yes is needed.
        """
        app()
        fill("work.db", 20)
        prune = ("journal", "prune", "--older-than", "1d", *JOURNAL)
        assert run(*prune) == (2, "", "Error: Forgetting cannot be undone; say --yes.\n")

        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "n")
        code, out, err = run(*prune)
        assert (code, out, err.endswith("Error: Nothing was forgotten.\n")) == (1, "", True)
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "y")
        assert run(*prune)[1].startswith("Forgot 20 events")

    @pytest.mark.parametrize("span", ["", "old", "-1d", "999999999w", "2026-01-01"])
    def test_prune_of_no_span(self, run: Run, app: App, span: str) -> None:
        """
        What is no time span is wrong usage.
        """
        app()
        fill("work.db", 1)

        assert run("journal", "prune", "--older-than", span, "--yes", *JOURNAL)[0] == 2


class TestStats:
    def test_as_the_journal_counts(self, run: Run, app: App) -> None:
        """
        The figures are those of the journal's own statistics.
        """
        worked(app, "r")
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
        worked(app, "r")

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
