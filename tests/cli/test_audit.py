"""`audit`: every event in order, filters, damaged events, memory."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_journal_rig import JOURNAL, fill_journal, read_events, run_app
from cli_rig import ENV, App, Run, app, run  # noqa: F401

from praval_tools import ToolCall, ToolRegistry


class TestAudit:
    def test_a_line_per_event(self, run: Run, app: App) -> None:
        """
        In a pipe each event is one whole line, its number first: when, who, tool, what, arguments, why.
        """
        run_app(app, "r")
        code, out, err = run("audit", *JOURNAL)
        lines = out.splitlines()

        assert (code, err) == (0, "")
        assert lines[0].split() == ["seq", "time", "who", "tool", "what", "arguments", "why"]
        assert [[line.split()[column] for column in (0, 2, 3)] for line in lines[1:4]] == [
            ["1", "clerk", "both"], ["2", "clerk", "look"], ["3", "clerk", "look"],
        ]  # fmt: skip
        assert lines[1].split()[4:] == ["call", 'name="ann"', "owner"]
        assert "tool_error" in out and "ValueError: [red]no \\x1b[31m such" in out
        assert "\\x1b[31mevil[red]" in out
        assert "\x1b" not in out

    def test_arguments_are_short_and_without_secrets(self, run: Run, app: App) -> None:
        """
        The arguments of calls and refusals are a column: cut, without secrets, escaped; also in 80 columns.
        """
        name = app(
            "from praval_tools import ToolRegistry\nregistry = ToolRegistry(journal='work.db')\n"
            "@registry.tool(owned_by='clerk')\ndef sign(password: str, text: str) -> int:\n    'Sign.'\n    return 1\n"
        )
        for agent in ("clerk", "thief"):
            run("call", agent, "sign", "password=hunter2", "text=\x1b" + "x" * 99, "--app", f"{name}:registry")
        out = run("audit", *JOURNAL)[1]

        assert out.count('password="[secret ') == 2 and "hunter2" not in out and "\x1b" not in out
        assert "x" * 40 not in out and out.count("…") == 2
        env = {**ENV, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}
        command = [sys.executable, "-m", "praval_tools", "audit", *JOURNAL]
        assert "(password=" in subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout

    def test_calls_for_others(self, run: Run, app: App) -> None:
        """
        Who called is named with those for whom, and selected by its own name: in calls, refusals and requests.
        """
        with ToolRegistry(journal="work.db") as registry:
            helper = registry.agent("boss").delegate("helper", mode="inherit")

            @registry.tool(owned_by="boss")
            def look() -> int:
                """Look."""
                return 1

            helper.call("look")
            registry.configure("look", requires_approval=True)
            helper.execute(ToolCall("1", "look", {}))
            registry.block("look", "boss")
            helper.execute(ToolCall("2", "look", {}))
        out = run("audit", "--tool", "look", *JOURNAL)[1].splitlines()
        called = [line.split()[2:] for line in out if line.split()[2] == "helper" and "  ok, " not in line]

        assert [["helper", "for", "boss", "look"]] * 4 == [words[:4] for words in called]
        assert ["call", "approval", "approval_required", "forbidden"] == [words[4] for words in called]
        own = run("audit", "--agent", "boss", "--type", "agent_tool_call", *JOURNAL)[1]
        chains = [
            json.loads(line).get("chain")
            for line in run("audit", "--agent", "helper", "--json", *JOURNAL)[1].splitlines()
        ]
        assert ("", True) == (own, ["boss"] in chains)

    def test_json_lines(self, run: Run, app: App) -> None:
        """
        --json prints one event per line with its place, in order, and what is hostile is escaped.
        """
        run_app(app, "r")
        found = read_events(run)

        assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
        assert [one["run_seq"] for one in found] == list(range(1, len(found) + 1))
        assert {one["run_id"] for one in found} == {"r"}
        assert "\x1b" not in run("audit", "--json", *JOURNAL)[1]

    def test_filters(self, run: Run, app: App) -> None:
        """
        Each filter narrows, and they combine.
        """
        name = run_app(app, "r")
        run_app(app, "s")
        run("share", "look", "--app", f"{name}:registry")

        assert {one["tool_name"] for one in read_events(run, "--tool", "pay")} == {"pay"}
        assert {one["outcome"] for one in read_events(run, "--outcome", "tool_error")} == {"tool_error"}
        assert [one["type"] for one in read_events(run, "--type", "tool_shared")] == ["tool_shared"]
        assert {one["run_id"] for one in read_events(run, "--run", "s")} == {"s"}
        assert len(read_events(run, "--run", "s", "--tool", "pay", "--outcome", "ok")) == 2
        assert read_events(run, "--agent", "nobody") == []
        assert run("audit", *JOURNAL, "--agent", "nobody") == (0, "", "No such events.\n")

    def test_times(self, run: Run, app: App) -> None:
        """
        --since and --until take spans and moments; the first is included, the second is not.
        """
        app()
        fill_journal("work.db", 100)

        assert len(read_events(run, "--since", "2026-01-01T00:01:00")) == 40
        assert len(read_events(run, "--since", "2026-01-01T00:01:00Z", "--until", "2026-01-01T02:01:10+02:00")) == 10
        assert len(read_events(run, "--since", "20000d")) == 100
        assert read_events(run, "--since", "1s") == []

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (
                ["--since", "yesterday"],
                "'yesterday' is not a valid time; write 90s, 15m, 2h, 7d, or 2026-12-31T18:00 (UTC).",
            ),
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
        fill_journal("work.db", 1)
        code, out, err = run("audit", *JOURNAL, *options)

        assert (code, out) == (2, "")
        assert text in err and err.count("\n") == 1

    @pytest.mark.parametrize("count", [1, 99, 100, 101, 1_000])
    def test_limit_gives_the_latest(self, run: Run, app: App, count: int) -> None:
        """
        --limit gives the latest that fit, in order, however many there are and however rare they are.
        """
        app()
        fill_journal("work.db", count)

        assert [one["seq"] for one in read_events(run, "--limit", "3")] == list(range(1, count + 1))[-3:]
        assert [one["seq"] for one in read_events(run, "--limit", "2", "--until", "2026-01-01T00:00:05")] == [
            *range(1, count + 1)][:5][-2:]  # fmt: skip
        assert read_events(run, "--limit", "2", "--outcome", "timeout") == []

    def test_a_terminal_of_80_columns(self, app: App) -> None:
        """
        In a terminal each event is one line of at most 80 columns, below its day.
        """
        run_app(app, "r")
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
            fill_journal(path, count, size=2_000)
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
        fill_journal("work.db", 5)
        with sqlite3.connect("work.db") as connection:
            connection.execute("UPDATE journal_events SET body = ? WHERE seq = 2", (b'{"v": 1, \x1b[31m',))
            connection.execute("UPDATE journal_events SET body = ? WHERE seq = 3", (b'{"v": 99, "type": "new"}',))
        connection.close()
        code, out, err = run("audit", *JOURNAL)

        assert (code, err) == (1, "Error: 2 events could not be read; --json shows their content.\n")
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
        fill_journal("work.db", 5_000)
        command = [sys.executable, "-m", "praval_tools", "audit", *JOURNAL]
        running = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert running.stdout is not None and running.stdout.readline().startswith("seq")
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
        assert (running.returncode, err.strip()) == (130, "Stopped: interrupted.")

        shell = f"{' '.join(command)} | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", shell], env=ENV, capture_output=True, text=True, timeout=60)
        assert (done.stdout.splitlines()[-1], done.stderr) == ("141", "")
