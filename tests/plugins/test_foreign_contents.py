"""No code of what a plugin brings runs as the operator while the plugin is loaded."""

# Tests of: plugins/contents, plugins/staging, plugins/plugin_hooks, plugins/settings

from __future__ import annotations

import sys
from typing import Any

import pytest
from plugin_code_rig import HEAD
from plugin_rig import Site, host, loaded, site  # noqa: F401

from praval_tools import PluginReport, ToolCall, ToolRegistry, use_registry

ODD_TOOLS = """
class Forged:
    __class__ = Tool
    def __hash__(self):
        attempt("hash")
        return 1
    def __getattribute__(self, name):
        if name != "__class__":
            attempt("attribute")
        return object.__getattribute__(self, name)
class Own(Tool):
    def __hash__(self):
        attempt("hash")
        return 1
    def __getattribute__(self, name):
        attempt("attribute")
        return super().__getattribute__(name)
def one() -> int:
    "One."
    return 1
def make(kind):
    return Forged() if kind == "Forged" else Own("one", "One.", callable=one)
"""

ODD_TEXT = """
class Odd(str):
    def __hash__(self):
        attempt("hash")
        return str.__hash__(self)
    def __eq__(self, other):
        attempt("equal")
        return str.__eq__(self, other)
    def __lt__(self, other):
        attempt("less")
        return str.__lt__(self, other)
    def __len__(self):
        attempt("length")
        return str.__len__(self)
    def __format__(self, spec):
        attempt("format")
        return str.__format__(self, spec)
    def replace(self, *given):
        attempt("replace")
        return str.replace(self, *given)
"""


def load(site: Site, host: ToolRegistry, source: str, **options: Any) -> PluginReport:
    """Install and load a plugin; check that all it tried was refused."""
    site.install("acme", HEAD + source)
    report = loaded(host, **options)["acme"]
    assert not host.explain("eve", "hosts_sum").allowed, report
    return report


@pytest.mark.parametrize("kind", ["Forged", "Own"])
class TestTools:
    """Broken promise: tools of classes of their own were hashed as the operator."""

    def test_of_a_hook(self, site: Site, host: ToolRegistry, kind: str) -> None:
        """They are refused by what they are, and their code runs in the plugin's name."""
        hook = f"@hookimpl\ndef praval_tools_register_tools():\n    return [make({kind!r})]\n"

        assert "a tool of a class of its own" in str(load(site, host, ODD_TOOLS + hook))

    def test_of_a_source(self, site: Site, host: ToolRegistry, kind: str) -> None:
        """Those that a loader makes of a table, too."""
        hook = f"@hookimpl\ndef praval_tools_sources():\n    return {{'acme': lambda table: [make({kind!r})]}}\n"

        load(site, host, ODD_TOOLS + hook, config={"sources": [{"kind": "acme"}]})

    def test_that_its_import_registers(self, site: Site, host: ToolRegistry, kind: str) -> None:
        """Beside an agent, with which the default registry of the import becomes a whole one."""
        report = load(site, host, f"{ODD_TOOLS}Agent('clerk')\nget_tool_registry().register_tool(make({kind!r}))\n")

        assert ("import", "TypeError") == (report.stage, report.error_type)


class TestDeclarations:
    """Broken promise: a plugin could say itself what its import had declared, with objects of any class."""

    @pytest.mark.parametrize("declared", ["Forged()", "ModuleDeclarations(agents=(Forged(),))"])
    def test_are_kept_out_of_its_reach(self, site: Site, host: ToolRegistry, declared: str) -> None:
        """An attribute of its module stands for none."""
        source = f"""
from praval_tools.plugins.staging import ModuleDeclarations
class Forged:
    __class__, tools = ModuleDeclarations, ()
    @property
    def agents(self):
        attempt("agents")
        return ()
    @property
    def profile(self):
        attempt("profile")
__praval_tools_declared__ = {declared}
"""

        assert ("plain",) == load(site, host, source).tools


class TestTexts:
    """Broken promise: texts of classes of their own were compared, sorted and measured as the operator."""

    def test_names_of_hooks(self, site: Site, host: ToolRegistry) -> None:
        """The name that a mark gives is a plain text."""
        hooks = """
@hookimpl(specname=Odd("praval_tools_authorize"))
def first():
    return None
@hookimpl(specname=Odd("praval_tools_before_call"))
def second():
    raise ValueError("x")
"""
        report = load(site, host, ODD_TEXT + hooks)

        assert ["praval_tools_authorize", "praval_tools_before_call"] == [*report.hooks]
        with pytest.warns(match="praval_tools_before_call"):
            host.execute(ToolCall("1", "hosts_sum", {"items": [1]}, "analyst"))
        assert "done" not in sys.modules["acme"].log.values()

    def test_secrets_of_settings(self, site: Site, host: ToolRegistry) -> None:
        """What the plugin's class makes of a password is hidden as a plain text."""
        hooks = """
@attrs.frozen
class Settings:
    password: str = attrs.field(converter=Odd)
@hookimpl
def praval_tools_settings():
    return Settings
@hookimpl
def praval_tools_register_tools(settings):
    raise ValueError(f"no connection with {str.__str__(settings.password)}")
"""
        site.install("acme", HEAD + ODD_TEXT + hooks)
        with use_registry(ToolRegistry()):
            import acme  # type: ignore[import-not-found]

        settings = acme.Settings("hunter2")
        acme.log.clear()
        report = loaded(host, settings={"acme": settings})["acme"]

        assert "no connection with [secret]" in str(report)
        assert "done" not in acme.log.values(), acme.log
