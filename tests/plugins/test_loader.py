"""Loading plugins: in which order, all or nothing, and that a bad one harms nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_rig import (
    HEAD,
    ROOT,
    Site,
    build_environment,
    loaded,
    names,
    site,  # noqa: F401
    write_tool,
)

import praval_tools
from praval_tools import (
    Agent,
    DuplicateToolError,
    NotOwnerError,
    PluginError,
    PluginLoadError,
    PluginWarning,
    ToolRegistry,
    autoload,
    load_plugins,
    plugin_reports,
    use_registry,
)

# Tests of: contents, selection, report


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


class TestLoading:
    def test_a_plugin_brings_tools_functions_and_objects(self, site: Site, registry: ToolRegistry) -> None:
        """Tools, functions with hints, objects and module-level declarations all become tools, in that order."""
        site.install("acme", HEAD + '''
@tool
def first(x: int) -> int:
    """First."""
    return x

class Sums:
    def add(self, x: int) -> int:
        """Add."""
        return x + 1

def third(x: int) -> int:
    """Third."""
    return x

@hookimpl
def praval_tools_register_tools():
    yield third
    yield Sums()
''')  # fmt: skip

        (report,) = load_plugins(registry)

        assert ("first", "third", "sums-add") == report.tools
        assert (True, False, "loaded", None) == (report.loaded, report.failed, report.stage, report.error)
        assert 3 == registry.execute_tool("sums-add", x=2)
        assert [] == list(praval_tools.get_tool_registry().state.tools)

    def test_order_is_by_distribution_then_entry_point(self, site: Site, registry: ToolRegistry) -> None:
        """In whatever order packages were installed, tools and reports are in one order."""
        for name in ("zeta", "Beta.x", "alpha"):
            site.install(name, write_tool(f"of_{name[0].lower()}"))

        reports = load_plugins(registry)

        assert ["alpha", "beta-x", "zeta"] == [one.distribution for one in reports]
        assert ["of_a", "of_b", "of_z"] == names(registry)

    def test_an_entry_point_may_name_an_object(self, site: Site, registry: ToolRegistry) -> None:
        """`module:object`: its marked methods are the hooks."""
        site.install("acme", HEAD + '''
class Plugin:
    @hookimpl
    def praval_tools_register_tools(self):
        def seven() -> int:
            "Seven."
            return 7
        return [seven]
plugin = Plugin()
''', value="acme:plugin")  # fmt: skip

        load_plugins(registry)

        assert 7 == registry.execute_tool("seven")

    def test_nothing_is_loaded_by_importing_the_package(self, site: Site) -> None:
        """`import praval_tools` imports neither plugins nor what finds them."""
        site.install("acme", "raise SystemExit('imported')")
        program = (
            "import sys, praval_tools\n"
            "print([one for one in sys.modules if one in ('acme', 'pluggy', 'importlib.metadata', 'tomllib')"
            " or one.startswith(('praval_tools.plugins', 'praval_tools.plugins.hookspecs', 'praval_tools.config'))])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], env=build_environment(site), capture_output=True, text=True
        )

        assert ("[]\n", "") == (done.stdout, done.stderr)

    def test_loading_twice_is_harmless_and_so_are_two_registries(self, site: Site, registry: ToolRegistry) -> None:
        """The same tools, once each, whatever was declared at import; another registry gets its own."""
        site.install("acme", write_tool("one"))
        other = ToolRegistry()

        load_plugins(registry)
        load_plugins(registry)
        load_plugins(other)

        assert ["one"] == names(registry) == names(other)

    def test_autoload_loads_once(self, site: Site, registry: ToolRegistry) -> None:
        """What the command line does: load unless it was done, and say what became of each."""
        site.good()
        with use_registry(registry):
            first = autoload()
            site.good("later")
            assert first == autoload() == plugin_reports()

        assert ["acme_query", "acme_count"] == names(registry)

    def test_an_upgrade_takes_the_place_of_the_old_one(self, site: Site, registry: ToolRegistry) -> None:
        """Loaded again, what is gone is gone, what is new is there, and grants on what stays stay."""
        site.good()
        load_plugins(registry)
        registry.assign_tool_to_agent("acme_count", "ann")
        site.remove("acme")
        site.install("acme", HEAD + '''
@hookimpl
def praval_tools_register_tools():
    def acme_count(items: list[int]) -> int:
        "Count again."
        return -len(items)
    def acme_new() -> int:
        "New."
        return 1
    return [acme_count, acme_new]
''', version="2.0")  # fmt: skip

        (report,) = load_plugins(registry)

        assert ("2.0", ["acme_count", "acme_new"]) == (report.version, names(registry))
        assert -2 == registry.agent("ann").call("acme_count", items=[1, 2])

    def test_left_out_later_it_loses_what_it_brought(self, site: Site, registry: ToolRegistry) -> None:
        """Switched off in the configuration, a loaded plugin's tools, policy and hooks are gone at the next loading."""
        hooks = (
            "@hookimpl\ndef praval_tools_authorize():\n    return 'no'\n"
            "@hookimpl\ndef praval_tools_before_call():\n    1 / 0\n"
        )
        site.install("acme", write_tool("one") + hooks)
        load_plugins(registry)
        assert (["one"], 1) == (names(registry), len(registry.state.policies))

        (report,) = load_plugins(registry, config={"plugins": {"acme": {"enabled": False}}})

        assert ("left out", [], ()) == (report.stage, names(registry), registry.state.policies)
        assert () == registry._runtime.hooks.before

    def test_an_upgrade_that_fails_changes_nothing(self, site: Site, registry: ToolRegistry) -> None:
        """What was loaded before goes on; the report tells of the failure."""
        site.good()
        load_plugins(registry)
        site.remove("acme")
        site.install("acme", "1 / 0", version="2.0")

        report = loaded(registry)["acme"]

        assert (True, ["acme_query", "acme_count"]) == (report.failed, names(registry))
        assert 2 == registry.execute_tool("acme_count", items=[1, 2])

    def test_it_is_the_operators_alone(self, site: Site, registry: ToolRegistry) -> None:
        """An agent's function cannot load plugins."""
        site.good()
        agent = Agent("ann", registry=registry, function=lambda: load_plugins(registry))

        with pytest.raises(NotOwnerError):
            agent()

    def test_debugging_traces_loading(
        self, site: Site, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """`PRAVAL_TOOLS_DEBUG_PLUGINS=1` tells on stderr what became of each, and how long it took."""
        site.good()
        monkeypatch.setenv("PRAVAL_TOOLS_DEBUG_PLUGINS", "1")
        load_plugins(registry)

        assert "praval_tools: acme 1.0 (acme): loaded, 2 tools, " in capsys.readouterr().err


BAD: dict[str, tuple[str, str, str]] = {
    "import-error": ("import nothing_of_this_name", "import", "ModuleNotFoundError"),
    "syntax-error": ("def f(:", "import", "SyntaxError"),
    "exits": ("print('noise'); import sys; sys.exit(3)", "import", "sys.exit(3)"),
    "wrong-signature": (HEAD + "@hookimpl\ndef praval_tools_authorize(who, what): return None", "hooks", "(who, what)"),
    "unknown-hook": (HEAD + "@hookimpl\ndef praval_tools_register_tool(): return []", "hooks", "register_tools"),
    "unmarked-hook": (HEAD + "def praval_tools_register_tools(): return []", "hooks", "@hookimpl"),
    "wrapper": (
        HEAD + "@hookimpl(wrapper=True)\ndef praval_tools_register_tools():\n    return (yield)", "hooks", "wrapper",
    ),
    "old-wrapper": (
        HEAD + "@hookimpl(hookwrapper=True)\ndef praval_tools_after_call(result):\n    yield", "hooks", "wrapper",
    ),
    "async-hook": (HEAD + "@hookimpl\nasync def praval_tools_register_tools(): return []", "hooks", "async"),
    "half-way": (
        HEAD + "def good() -> int:\n    'Good.'\n    return 1\n@hookimpl\ndef praval_tools_register_tools():\n"
        "    yield good\n    raise ValueError('half-way')", "praval_tools_register_tools", "ValueError: half-way",
    ),
    "no-hints": (
        HEAD + "def bare(x): return x\n@hookimpl\ndef praval_tools_register_tools(): return [bare]",
        "praval_tools_register_tools", "bare",
    ),
    "module-level-no-hints": (HEAD + "@tool\ndef bare(x): return x", "import", "bare"),
    "module-level-half": (
        HEAD + "@tool\ndef fine() -> int:\n    'Fine.'\n    return 1\nraise RuntimeError('later')", "import",
        "later",
    ),
    "users-name": (HEAD + "@tool\ndef users_tool() -> int:\n    'U.'\n    return 1", "clash", "users_tool"),
    "users-wire-name": (HEAD + "@tool('Users-Tool')\ndef u() -> int:\n    'U.'\n    return 1", "clash", "users_tool"),
    "twins": (
        HEAD + "def a() -> int:\n    'A.'\n    return 1\n@hookimpl\ndef praval_tools_register_tools():\n"
        "    return [Tool.from_function(a, 'one-x'), Tool.from_function(a, 'one_x')]", "tools", "two tools",
    ),
    "core-format": (
        HEAD + "@hookimpl\ndef praval_tools_formats(): return {'anthropic': dict}", "praval_tools_formats", "taken",
    ),
    "core-scheme": (
        HEAD + "@hookimpl\ndef praval_tools_journals(): return {'sqlite': open}", "praval_tools_journals", "taken",
    ),
    "engine-without-submit": (
        HEAD + "@hookimpl\ndef praval_tools_engines(): return {'acme.pool': 3}", "praval_tools_engines", "submit",
    ),
    "not-a-list": (
        HEAD + "@hookimpl\ndef praval_tools_register_tools(): return 'query'", "praval_tools_register_tools", "str",
    ),
    "not-a-tool": (
        HEAD + "@hookimpl\ndef praval_tools_register_tools(): return [42]", "praval_tools_register_tools", "int 42",
    ),
    "for-ever": (
        HEAD + "def a() -> int:\n    'A.'\n    return 1\n@hookimpl\ndef praval_tools_register_tools():\n"
        "    at = 0\n    while True:\n        at += 1\n        yield Tool.from_function(a, f'a{at}')",
        "praval_tools_register_tools", "more than 10,000",
    ),
    "recursion": (HEAD + "def f(): f()\nf()", "import", "RecursionError"),
    "unprintable": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError('no')\nraise Odd()", "import",
        "cannot be shown",
    ),
    "takes-over": (
        HEAD + "import host_of_plugins\nhost_of_plugins.registry.unregister_tool('users_tool')", "import",
        "'plugin:takes-over' may not unregister",
    ),
    "shares": (
        HEAD + "import host_of_plugins\nhost_of_plugins.registry.share_tool('users_tool')", "import", "may not share",
    ),
    "transfers": (
        HEAD + "import host_of_plugins\nhost_of_plugins.registry.transfer_ownership('users_tool', 'evil')", "import",
        "may not transfer",
    ),
    "replaces": (
        HEAD + "import host_of_plugins\n@tool(registry=host_of_plugins.registry, replace=True)\n"
        "def users_tool() -> int:\n    'Mine now.'\n    return 666", "import", "may not replace",
    ),
    "poses-as-analyst": (
        HEAD + "import host_of_plugins\nhost_of_plugins.registry.assign_tool_to_agent('users_tool', 'x', by='analyst')",
        "import", "may not speak for 'analyst'",
    ),
    "poses-as-operator": (
        HEAD + "import host_of_plugins\nwith host_of_plugins.registry.as_operator():\n    pass", "import",
        "may not act as the operator",
    ),
    "declares-agents-there": (
        HEAD + "import host_of_plugins\nAgent('analyst', registry=host_of_plugins.registry)", "import",
        "may not declare",
    ),
    "clears": (HEAD + "import host_of_plugins\nhost_of_plugins.registry.clear_registry()", "import", "may not clear"),
}  # fmt: skip
"""Name of the distribution → source, the stage where it is stopped, and what its error tells."""


@pytest.fixture
def host(site: Site) -> ToolRegistry:
    """The registry of a program, with a tool of its own, which plugins can find."""
    site.install("host-of-plugins", "from praval_tools import ToolRegistry\nregistry = ToolRegistry()\n", points="")
    import host_of_plugins

    @host_of_plugins.registry.tool("users_tool", owned_by="analyst")
    def users_tool() -> int:
        """The user's."""
        return 1

    return host_of_plugins.registry


class TestZoo:
    @pytest.mark.parametrize("name", BAD)
    def test_a_bad_plugin_is_kept_out_whole(self, site: Site, host: ToolRegistry, name: str) -> None:
        """It is stopped at its stage, reported with distribution, version and traceback, and nothing of it stays."""
        source, stage, said = BAD[name]
        site.good("aaa")
        site.install(name, source, version="6.6")
        site.good("zzz")
        before = names(host)

        reports = loaded(host)
        bad = reports[name]

        assert (stage, "6.6", True, False, ()) == (bad.stage, bad.version, bad.failed, bad.loaded, bad.tools)
        assert said in str(bad.error) or said in bad.traceback
        assert stage in ("hooks", "clash", "tools") or bad.traceback or bad.error_type == ""
        assert [*before, "aaa_query", "aaa_count", "zzz_query", "zzz_count"] == names(host)
        assert "analyst" == host.get_tool("users_tool").metadata.owned_by
        assert 1 == host.execute_tool("users_tool") and not host.get_tool("users_tool").metadata.shared
        assert [] == host.agents

    def test_all_of_them_together(self, site: Site, host: ToolRegistry) -> None:
        """One load of the whole zoo: the good ones work, each bad one is reported by itself."""
        for name, (source, _, _) in BAD.items():
            site.install(name, source)
        site.good("good")

        reports = loaded(host)

        assert [] == [name for name in BAD if not reports[name].failed]
        assert ["users_tool", "good_query", "good_count"] == names(host)
        assert {stage for _, stage, _ in BAD.values()} == {reports[name].stage for name in BAD}

    def test_two_plugins_that_clash(self, site: Site, registry: ToolRegistry) -> None:
        """The first by name has the tool, in every process; the other is kept out whole, its report says the fix."""
        source = HEAD + "@tool\ndef same() -> str:\n    'Same.'\n    return __name__\n"
        for name in ("bbb", "aaa"):
            site.install(name, source + write_tool(f"own_{name}"))

        reports = loaded(registry)

        assert ["same", "own_aaa"] == names(registry)
        assert "aaa" == registry.execute_tool("same")
        assert 'namespace = "…" for it in [plugins."bbb"]' in str(reports["bbb"].error)
        assert "aaa 1.0" in str(reports["bbb"].error)

    def test_the_user_comes_later(self, site: Site, registry: ToolRegistry) -> None:
        """A user's tool of a name that a plugin has is a duplicate that names the plugin."""
        site.good()
        load_plugins(registry)

        with pytest.raises(DuplicateToolError, match=r"plugin:acme.*acme 1\.0"):

            @registry.tool("acme_query")
            def mine() -> int:
                """Mine."""
                return 1

    def test_the_same_in_every_process(self, site: Site, tmp_path: Path) -> None:
        """Other hash seeds and another order of installation: the same reports, the same tools."""
        for name, (source, _, _) in BAD.items():
            if "host_of_plugins" not in source:
                site.install(name, source)
        for name in ("zzz", "aaa"):
            site.good(name)
        again = tmp_path / "again"
        again.mkdir()
        copy = Site(again)
        for name in ("aaa", "zzz"):
            copy.good(name)
        for name, (source, _, _) in reversed(BAD.items()):
            if "host_of_plugins" not in source:
                copy.install(name, source)
        program = (
            "import warnings; warnings.simplefilter('ignore')\n"
            "from praval_tools import ToolRegistry, load_plugins\n"
            "r = ToolRegistry()\n"
            "reports = load_plugins(r, config={})\n"
            "import json; print(json.dumps([[(str(x), x.stage, x.tools) for x in reports], [t.name for t in r]]))"
        )
        output = []
        for folder, seed in ((site.folder, "1"), (site.folder, "2"), (again, "3")):
            env = {**build_environment(site), "PYTHONHASHSEED": seed, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
            done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
            output.append(done.stdout.splitlines()[-1].replace(str(folder), "<site>"))

        assert 1 == len(set(output))
        assert ["aaa_query", "aaa_count", "users_tool", "zzz_query", "zzz_count"] == json.loads(output[0])[1]

    def test_it_is_warned_of_and_strict_raises(self, site: Site, registry: ToolRegistry) -> None:
        """A failure is never silent: a warning, and with `strict` a group of errors once the rest is loaded."""
        site.install("bad", "1 / 0")
        site.good("good")
        with pytest.warns(PluginWarning, match=r"Plugin bad 1\.0 \(bad\) \(import\): ZeroDivisionError"):
            load_plugins(registry)
        with pytest.raises(PluginLoadError) as caught:
            load_plugins(ToolRegistry(), strict=True)

        assert [True, False] == [one.failed for one in caught.value.reports]
        assert isinstance(caught.value.exceptions[0], PluginError)

    def test_ctrl_c_passes(self, site: Site, registry: ToolRegistry) -> None:
        """What is neither an `Exception` nor an exit is nobody's to keep: Ctrl-C ends the loading."""
        site.install("stopping", "raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt):
            load_plugins(registry)
        with pytest.raises(KeyboardInterrupt):
            load_plugins(registry, timeout=30)

    def test_one_that_hangs_is_abandoned(self, site: Site, registry: ToolRegistry) -> None:
        """With `timeout=` the others do not wait for ever, and what it does later reaches nothing."""
        site.install("hanging", HEAD + '''
import threading
go, gone = threading.Event(), threading.Event()
@tool
def late() -> int:
    "Late."
    return 1
@hookimpl
def praval_tools_register_tools():
    go.wait(60)
    try:
        tool("later")(late.function)
    finally:
        gone.set()
    return []
''')  # fmt: skip
        site.good("zzz")
        reports = loaded(registry, timeout=0.5)
        hanging = sys.modules["hanging"]
        hanging.go.set()
        assert hanging.gone.wait(60)

        assert ("timeout", True) == (reports["hanging"].stage, reports["zzz"].loaded)
        assert "praval_tools_register_tools" in str(reports["hanging"].error)
        assert ["zzz_query", "zzz_count"] == names(registry)

    def test_a_huge_error_is_cut(self, site: Site, registry: ToolRegistry) -> None:
        """A megabyte of message or traceback does not fill the reports."""
        site.install("loud", "raise ValueError('x' * 10_000_000)")
        report = loaded(registry)["loud"]

        assert 5_000 > len(str(report.error)) and 5_000 > len(report.traceback)
