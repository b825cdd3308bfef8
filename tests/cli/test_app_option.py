"""`--app`: how the registry is found, and what is said where it is not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

from praval_tools.testing.plugin import isolated_registry


class TestFindingTheRegistry:
    def test_without_app_it_says_what_to_do(self, run: Run) -> None:
        """
        No `--app`: one line with the fix and an example that works.
        """
        code, out, err = run("list")

        assert (code, out) == (2, "")
        assert err.startswith("Error: Which registry? Name it: --app module:registry")
        assert err.count("\n") == 1

    def test_app_before_and_after_the_command(self, run: Run, app: App) -> None:
        """
        `--app` is taken in both places.
        """
        name = app()

        assert run("--app", f"{name}:registry", "list") == run("list", "--app", f"{name}:registry")

    def test_app_may_be_a_function(self, run: Run, app: App) -> None:
        """
        A function that returns a registry is called.
        """
        assert run("list", "--app", f"{app()}:make")[0] == 0

    def test_module_alone_means_the_default_registry(self, run: Run, app: App) -> None:
        """
        A module without an attribute is imported, and the default registry is what it filled.
        """
        name = app('from praval_tools import tool\n@tool\ndef hello(name: str) -> str:\n    "Greet."\n    return name')

        with isolated_registry():
            assert run("list", "--app", name)[1].split()[-4:] == ["hello", "-", "-", "Greet."]

    @pytest.mark.parametrize(
        ("spec", "code", "text"),
        [
            (
                "no_such_module:registry",
                2,
                "No module 'no_such_module' in this folder or installed; run the command in the folder that",
            ),
            ("praval_tools.demo:registri", 2, "Module 'praval_tools.demo' has no 'registri'. Did you mean 'registry'?"),
            ("praval_tools.errors:annotations", 2, "is a _Feature, not a ToolRegistry"),
            ("app.py:registry", 2, "--app takes a module, not a file: --app app:registry"),
            (":registry", 2, "--app takes MODULE[:REGISTRY], not ''."),
            ("..x:registry", 2, "--app takes MODULE[:REGISTRY], not '..x'."),
        ],
    )
    def test_wrong_app(self, run: Run, spec: str, code: int, text: str) -> None:
        """
        A wrong `--app` is one line that names the fix.
        """
        given, out, err = run("list", "--app", spec)

        assert (given, out) == (code, "")
        assert text in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("source", "text"),
        [
            ("1 / 0", "ZeroDivisionError: division by zero"),
            ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
            ("def broken(:", "SyntaxError"),
            ("raise SystemExit('leaving')", "SystemExit: leaving"),
            ("from praval_tools import tool\n@tool\ndef f(x) -> int:\n    'Doc.'\n    return x", "has no type hint"),
        ],
    )
    def test_app_that_fails(self, run: Run, app: App, source: str, text: str) -> None:
        """
        A module that fails on import is one readable error, without a traceback, exit code 1.
        """
        code, out, err = run("check", "--app", app(source))

        assert (code, out) == (1, "")
        assert text in err
        assert "Traceback" not in err

    def test_traceback_on_request(self, app: App) -> None:
        """
        `--traceback` shows the whole Python error.
        """
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "check", "--traceback", "--app", app("1 / 0")],
            env=ENV, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

        assert done.returncode == 1
        assert "Traceback (most recent call last)" in done.stderr
        assert "ZeroDivisionError" in done.stderr
