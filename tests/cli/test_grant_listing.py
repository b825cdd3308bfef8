"""`grants` and `revoke`: what is in force, and the end of one grant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_rig import BANK, App, Run, app, run  # noqa: F401

from praval_tools import ToolRegistry

GRANTING = BANK + (
    "registry.grant('quote', 'clerk', max_calls=3, key='k', where={'symbol': {'enum': ['A']}},"
    " delegable=True, reason='for the counter')\n"
)


class TestGrants:
    def test_what_is_in_force(self, run: Run, app: App) -> None:
        """
        Each live grant with what is left, its expiry and bounds, who made it and why; the id is the first word.
        """
        at = ("--app", f"{app(GRANTING)}:registry", "--journal", "g.db")
        run("assign", "wire_money", "intern", "--expires", "1h", "--reason", "once", *at)
        code, out, _ = run("grants", *at)
        first, second = out.splitlines()[1:]

        assert code == 0
        assert first.split()[1:6] == ["clerk", "quote", "3", "of", "3"]
        assert first.endswith('{"symbol": {"enum": ["A"]}}  yes        operator  for the counter')
        assert second.split()[1:4] == ["intern", "wire_money", "-"] and second.endswith("once")
        assert ["quote"] == [grant["tool"] for grant in json.loads(run("grants", "--tool", "quote", "--json", *at)[1])]
        assert [second.split()[0]] == [
            grant["id"] for grant in json.loads(run("grants", "--agent", "intern", "--json", *at)[1])
        ]
        (grant,) = json.loads(run("grants", "--agent", "intern", "--json", *at)[1])
        assert (grant["tool"], grant["calls_left"], grant["reason"]) == ("wire_money", None, "once")
        assert grant["expires"] > grant["made"]

    def test_none(self, run: Run, app: App) -> None:
        """
        Where there is none, it says so, and JSON is an empty list.
        """
        at = ("--app", f"{app()}:registry")

        assert run("grants", *at) == (0, "", "There are no live grants.\n")
        assert run("grants", "--agent", "intern", "--json", *at) == (0, "[]\n", "")


class TestRevoke:
    def test_it_ends_the_grant(self, run: Run, app: App) -> None:
        """
        A revoked grant is listed no more, permits nothing, and is recorded with its reason.
        """
        at = ("--app", f"{app()}:registry", "--journal", "g.db")
        run("assign", "wire_money", "intern", *at)
        grant = run("grants", *at)[1].splitlines()[1].split()[0]
        code, out, _ = run("revoke", grant, "--reason", "over", *at)

        assert (code, out) == (0, "Revoked the grant of wire_money to intern.\n")
        assert run("why", "intern", "wire_money", *at)[0] == 3
        assert run("grants", *at)[1] == ""
        assert "over" in run("audit", "--journal", "g.db")[1].splitlines()[-1]
        assert run("revoke", grant, *at)[1] == f"The grant {grant} had ended before.\n"

    def test_one_that_is_not_recorded(self, run: Run, app: App) -> None:
        """
        What a program grants before it has a journal is there again at its next start: that is said, with what helps.
        """
        at = ("--app", f"{app(GRANTING)}:registry", "--journal", "g.db")
        run("block", "quote", "intern", *at)
        grant = run("grants", *at)[1].splitlines()[1].split()[0]
        code, _, err = run("revoke", grant, *at)

        assert (code, "unassign quote clerk" in err) == (3, True)
        run("unassign", "quote", "clerk", *at)
        assert run("grants", *at)[1] == ""

    def test_it_ends_one_that_a_file_declares(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        A grant of a file that no program has loaded yet; it stays revoked when one does.
        """
        monkeypatch.chdir(tmp_path)
        fields = "name: look, description: D., parameters_schema: {type: object}, module: shop, function: look"
        tool = f"tools: [{{{fields}}}]\nagents: {{ann: }}\n"  # nothing is imported of it before a call
        (tmp_path / "tools.yml").write_text(tool + "grants: [{tool: look, agent: ann}]\njournal: {path: g.db}\n")
        grant = run("grants")[1].splitlines()[1].split()[0]

        assert grant in run("grants")[1]
        assert run("revoke", grant)[:2] == (0, "Revoked the grant of look to ann.\n")
        with ToolRegistry.from_config("tools.yml") as registry:
            assert registry.grants() == []

    def test_what_permits_besides_is_said(self, run: Run, app: App) -> None:
        """
        Where something else gives the agent the tool, a note says what.
        """
        at = ("--app", f"{app()}:registry", "--journal", "g.db")
        run("assign", "quote", "intern", "--max-calls", "1", *at)
        grant = run("grants", *at)[1].splitlines()[1].split()[0]

        assert "Note: intern can call quote all the same, by the rule 'listed'." in run("revoke", grant, *at)[2]

    def test_unknown_grant(self, run: Run, app: App) -> None:
        """
        An id that nobody gave is wrong usage.
        """
        at = ("--app", f"{app()}:registry")
        code, _, err = run("revoke", "nope", *at)

        assert code == 2
        assert err == f"Error: No grant 'nope' is recorded. praval-tools {' '.join(at)} grants lists the ids.\n"
