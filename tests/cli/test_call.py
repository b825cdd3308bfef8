"""`why` and `call`: the decision, the arguments, the result, the exit code."""

from __future__ import annotations

import io
import json
import sys

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

DEMO = ("--app", "praval_tools.demo:registry")


class TestWhy:
    def test_allowed(self, run: Run, app: App) -> None:
        """
        An allowed call: exit code 0, the rule, and every rule in order.
        """
        code, out, _ = run("why", "intern", "quote", "--app", f"{app()}:registry")

        assert code == 0
        assert out.startswith("intern -> quote: allowed (listed)")
        assert [line.split()[1] for line in out.splitlines() if line[:1].isdigit()] == [
            "unknown", "disabled", "blocked", "owner", "listed", "shared", "category", "granted",
        ]  # fmt: skip

    def test_refused(self, run: Run, app: App) -> None:
        """
        A refused call: exit code 3, the reason, and what would change it.
        """
        code, out, _ = run("why", "intern", "wire_money", "--app", f"{app()}:registry")

        assert code == 3
        assert "forbidden" in out
        assert "To change it: 'treasurer' or the operator may grant it" in out

    def test_bounds(self, run: Run) -> None:
        """
        With arguments the bounds of a grant are asked, after the repair of key=value text.
        """
        assert run("why", "analyst", "read_rows", "count=20", *DEMO)[0] == 0
        code, out, _ = run("why", "analyst", "read_rows", "count=21", *DEMO)
        assert code == 3
        assert "count" in out.splitlines()[1]

    def test_json(self, run: Run) -> None:
        """
        The JSON has the decision and every rule tried.
        """
        code, out, _ = run("why", "reporter", "publish", "--json", *DEMO)
        found = json.loads(out)

        assert code == 3
        assert (found["allowed"], found["outcome"], found["rule"]) == (False, "forbidden", "no-way")
        assert [one["rule"] for one in found["tried"]][:3] == ["unknown", "disabled", "blocked"]

    def test_unknown_tool(self, run: Run) -> None:
        """
        A tool that does not exist is explained as unknown.
        """
        code, out, _ = run("why", "reporter", "publsh", *DEMO)

        assert code == 2
        assert "unknown" in out

    def test_swapped(self, run: Run) -> None:
        """
        Tool and agent in the wrong order are recognised and said.
        """
        assert "swap" in run("why", "publish", "reporter", *DEMO)[1]

    def test_arguments_that_do_not_fit(self, run: Run) -> None:
        """
        Arguments that the tool does not take are wrong usage.
        """
        code, _, err = run("why", "analyst", "read_rows", "count=many", *DEMO)

        assert code == 2
        assert "$.count" in err


class TestCall:
    def test_pairs_are_repaired(self, run: Run, app: App) -> None:
        """
        `x=3` is a number where a number is wanted, and text where text is; what the tool prints goes to stderr.
        """
        words = ("to=42", "amount=3", "urgent=true")
        code, out, err = run("call", "treasurer", "wire_money", *words, "--app", f"{app()}:registry")

        assert (code, json.loads(out), err) == (0, {"to": "42", "amount": 3.0, "urgent": True}, "wiring\n")

    def test_pairs_for_a_strict_tool(self, run: Run, app: App) -> None:
        """
        A tool that takes strict arguments can be called from a shell as well.
        """
        assert run("call", "intern", "quote", "symbol=7", "days=2", "--app", f"{app()}:registry")[:2] == (0, "7 2\n")

    def test_json_argument(self, run: Run, app: App) -> None:
        """
        One JSON object is taken as it is.
        """
        spec = f"{app()}:registry"

        assert run("call", "intern", "quote", '{"symbol": "A"}', "--app", spec)[:2] == (0, "A 1\n")

    def test_stdin(self, run: Run, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        `-` reads JSON from stdin.
        """
        monkeypatch.setattr(sys, "stdin", io.StringIO('{"symbol": "B", "days": 3}'))

        assert run("call", "intern", "quote", "-", "--app", f"{app()}:registry")[:2] == (0, "B 3\n")

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (["symbol"], "'symbol' is not a valid argument; write key=value"),
            (["=3"], "'=3' is not a valid argument"),
            (["symbol=a", "symbol=b"], "Argument 'symbol' is given twice."),
            (["{broken"], "The arguments are not a JSON object"),
            (["[1]"], "The arguments are not a JSON object"),
            (["symbool=a"], "symbool"),
            (["symbol=a", "days=many"], "$.days"),
        ],
    )
    def test_bad_arguments(self, run: Run, app: App, words: list[str], text: str) -> None:
        """
        Arguments that cannot be meant are wrong usage, with what is wrong.
        """
        code, out, err = run("call", "intern", "quote", *words, "--app", f"{app()}:registry")

        assert (code, out) == (2, "")
        assert text in err

    def test_refused(self, run: Run, app: App) -> None:
        """
        A call that the rules refuse: exit code 3, reason and remedy for the operator.
        """
        code, out, err = run("call", "intern", "wire_money", "to=a", "amount=1", "--app", f"{app()}:registry")

        assert (code, out) == (3, "")
        assert err.startswith("forbidden: ")
        assert "'treasurer' or the operator may grant it" in err

    def test_needs_approval(self, run: Run, app: App) -> None:
        """
        A tool that needs an approval never runs without one.
        """
        code, out, err = run("call", "intern", "log", "text=a", "--app", f"{app()}:registry")

        assert (code, out) == (3, "")
        assert err.startswith("approval_required: ")

    def test_tool_that_fails(self, run: Run, app: App) -> None:
        """
        A tool that raises: exit code 1, class and message, no traceback.
        """
        code, _, err = run("call", "treasurer", "wire_money", "to=a", "amount=-1", "--app", f"{app()}:registry")

        assert code == 1
        assert "tool_error (ValueError): a negative amount" in err
        assert "Traceback" not in err

    def test_unknown_tool(self, run: Run, app: App) -> None:
        """
        A tool that does not exist is wrong usage.
        """
        code, _, err = run("call", "intern", "nope", "--app", f"{app()}:registry")

        assert code == 2
        assert err.startswith("unknown_tool: Tool 'nope' not found")

    @pytest.mark.parametrize("agent", ["treasurer", "intern"])
    @pytest.mark.parametrize("name", ["wire-money", "Wire.Money", "wire_mony"])
    def test_misspelt_tool(self, run: Run, app: App, agent: str, name: str) -> None:
        """
        The tool that is meant is named as by other commands, also where the agent may not call it.
        """
        code, _, err = run("call", agent, name, "to=a", "amount=1", "--app", f"{app()}:registry")

        assert (2, f"unknown_tool: Tool {name!r} not found. Did you mean 'wire_money'?\n") == (code, err)

    def test_json_output(self, run: Run, app: App) -> None:
        """
        `--json` gives the whole result, refusals too.
        """
        good = json.loads(run("call", "intern", "quote", "symbol=a", "--json", "--app", f"{app()}:registry")[1])
        words = ("wire_money", "to=a", "amount=1")
        bad = json.loads(run("call", "intern", *words, "--json", "--app", f"{app()}:registry")[1])

        assert (good["outcome"], good["result"], good["rule"]) == ("ok", "a 1", "listed")
        assert (bad["outcome"], bad["result"], bad["rule"]) == ("forbidden", None, "no-way")
