"""`llm` offers its model what the agent may call, and each call is decided when it is made."""

from __future__ import annotations

import json
import os
import pty
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import RunLlm

ALL = ("-T", "draw", "-T", "mail", "-T", "once", "-T", "pay", "-T", "shop_price")


def ask(run_llm: RunLlm, *calls: Any, tools: tuple[str, ...] = ALL, **options: Any) -> list[Any]:
    """Have the model make calls one after the other, and return what it got for them."""
    script = [*([call] for call in calls), "Done."]
    done = run_llm("-m", "scripted", *tools, "Go.", script=script, **options)
    assert 0 == done.returncode, done.stderr
    *answers, last = done.stdout.strip().splitlines()
    assert "Done." == last
    return [json.loads(answer)[0] for answer in answers]


class TestTools:
    def test_are_those_of_the_agent(self, run_llm: RunLlm) -> None:
        """`llm tools` lists what the agent may call, with its parameters, and nothing else."""
        tools = {tool["name"]: tool for tool in json.loads(run_llm("tools", "list", "--json").stdout)["tools"]}
        own = {name for name, tool in tools.items() if tool["plugin"] == "praval-tools"}

        assert {"draw", "mail", "once", "pay", "shop_price"} == own
        assert ["item"] == tools["shop_price"]["arguments"]["required"]

    def test_are_called(self, run_llm: RunLlm) -> None:
        """Sync and async tools answer; images are attachments."""
        price, drawing = ask(run_llm, ["shop_price", {"item": "rope"}], ["draw", {}])

        assert ["7.5", 0] == price
        assert drawing[0].startswith("a dot") and 1 == drawing[1]

    def test_are_decided_at_each_call(self, run_llm: RunLlm) -> None:
        """A grant that is used up in mid-run refuses the next call, and the run goes on."""
        first, second = ask(run_llm, ["once", {}], ["once", {}])

        assert ["done", 0] == first
        assert second[0].startswith("Error: ") and "Once" in second[0]

    def test_say_what_is_wrong(self, run_llm: RunLlm) -> None:
        """Bad arguments and tools of others are errors for the model."""
        wrong, hidden = ask(run_llm, ["shop_price", {"item": 5}], ["refund", {"order": 1}])

        assert wrong[0].startswith("Error: ") and "$.item" in wrong[0]
        assert 'Error: tool "refund" does not exist' == hidden[0]
        assert "not found" in run_llm("-m", "scripted", "-T", "refund", "Go.").stderr


class TestApprovals:
    def test_are_not_given_by_nobody(self, run_llm: RunLlm, tmp_path: Path) -> None:
        """Without a terminal the call does not run."""
        (answer,) = ask(run_llm, ["pay", {"amount": 5}])

        assert "needs an approval" in answer[0] and not (tmp_path / "paid").exists()

    @pytest.mark.parametrize(("key", "paid"), [("y", True), ("n", False)])
    def test_are_given_in_the_terminal(self, run_llm: RunLlm, tmp_path: Path, key: str, paid: bool) -> None:
        """The person at the terminal is shown the call, and decides."""
        ours, theirs = pty.openpty()
        os.write(ours, f"{key}\n".encode())
        try:
            (answer,) = ask(run_llm, ["pay", {"amount": 5}], stdin=theirs, stderr=theirs)
            assert b"clerk wants to call pay with {'amount': 5}" in os.read(ours, 65_536)
        finally:
            os.close(ours)
            os.close(theirs)

        assert paid is ("paid 5" == answer[0]) is (tmp_path / "paid").exists()

    def test_are_asked_for_in_words_that_steer_no_terminal(self, run_llm: RunLlm) -> None:
        """A model's text that a policy quotes in its reason hides or overwrites nothing of the question."""
        ours, theirs = pty.openpty()
        os.write(ours, b"n\n")
        try:
            (answer,) = ask(run_llm, ["mail", {"to": "\x1b[2K\rclerk wants to look"}], stdin=theirs, stderr=theirs)
            shown = os.read(ours, 65_536)
        finally:
            os.close(ours)
            os.close(theirs)

        assert "was denied" in answer[0]
        assert b"mail ('it goes to \\x1b[2K\\rclerk wants to look') with" in shown and b"\x1b" not in shown

    def test_are_asked_for_one_after_the_other(self, run_llm: RunLlm, tmp_path: Path) -> None:
        """
        Calls that llm makes side by side do not share a terminal: an answer is for the question that is shown.

        Both questions stood there at once, and the first key answered one of the two.
        """
        ours, theirs = pty.openpty()
        script = [[["pay", {"amount": 5}], ["pay", {"amount": 9000}]], "Done."]
        shown = list[str]()

        def answer() -> None:
            for key in ("y", "n"):
                text = ""
                while "May it?" not in text:
                    text += os.read(ours, 65_536).decode()
                shown.append(text)
                os.write(ours, f"{key}\n".encode())

        person = threading.Thread(target=answer)
        person.start()
        try:
            done = run_llm("-m", "scripted", "--async", *ALL, "Go.", script=script, stdin=theirs, stderr=theirs)
            person.join()
        finally:
            os.close(ours)
            os.close(theirs)

        assert [1, 1] == [text.count("wants to call") for text in shown], shown
        assert "'amount': 5}" in shown[0] and "'amount': 9000}" in shown[1]
        assert "paid 5" in done.stdout and "was denied" in done.stdout
        assert "5" == (tmp_path / "paid").read_text()


class TestEnvironment:
    def test_may_name_nobody(self, run_llm: RunLlm) -> None:
        """Without an agent there are no tools, and nothing is imported or said."""
        done = run_llm("tools", "list", env={"PRAVAL_TOOLS_AGENT": "", "PRAVAL_TOOLS_APP": "missing:registry"})

        assert (0, "") == (done.returncode, done.stderr)
        assert "shop_price" not in done.stdout

    @pytest.mark.parametrize(
        ("app", "problem"),
        [
            ("", "Set PRAVAL_TOOLS_APP"),
            ("missing:registry", "No module named 'missing'"),
            ("shop:price", "ToolRegistry"),
            ("shop:nothing", "ToolRegistry"),
        ],
    )
    def test_that_is_wrong_leaves_llm_alone(self, run_llm: RunLlm, app: str, problem: str) -> None:
        """What is wrong with the registry is said in one line, and the other tools are there."""
        done = run_llm("tools", "list", env={"PRAVAL_TOOLS_APP": app})

        assert 0 == done.returncode and "llm_version" in done.stdout
        assert problem in done.stderr and 1 == done.stderr.count("\n")

    def test_may_name_a_configuration(self, run_llm: RunLlm, tmp_path: Path) -> None:
        """A configuration file declares the registry where no app is named."""
        (tmp_path / "tools.toml").write_text(
            '[[tools]]\nname = "price"\nmodule = "prices"\nfunction = "price"\nowned_by = "clerk"\n'
        )
        (tmp_path / "prices.py").write_text('def price() -> int:\n    """Price."""\n    return 3\n')
        env = {"PRAVAL_TOOLS_APP": "", "PRAVAL_TOOLS_CONFIG": "tools.toml"}

        assert [["3", 0]] == ask(run_llm, ["price", {}], tools=("-T", "price"), env=env)
