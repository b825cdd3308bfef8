"""A configuration that code loads while another one is being loaded counts as if it had been loaded before."""

# Tests of: settings, plugins_in_force, source

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path

import pytest
from plugin_rig import Site, site, write_tool  # noqa: F401  # fixtures

from praval_tools import ConfigError, PluginWarning, ToolRegistry, plugin_reports
from praval_tools.registry.registry import get_runtime

HOST = """
from contextvars import Context
from praval_tools import ToolRegistry
registry, file = ToolRegistry(), "b.toml"
def load():
    Context().run(registry.configure_from, file)  # as the host, whoever asks for it
def allow(request):
    return None
"""
LOAD = "import host_of_files\nhost_of_files.load()\n"
FUNCTION = "def add(x: int) -> int:\n    'Add.'\n    return x\n"
SETTINGS = """
[execution]
timeout = 7
errors = "masked"
[[limits]]
agent = "eve"
per_minute = 5
[approvals]
handler = "host_of_files:allow"
"""
ACME, BETA = "[plugins.acme]\n", "[plugins.beta]\n"
ADD = '[[tools]]\nname = "add"\nmodule = "functions"\nfunction = "add"\n'


class LoadingFinder(DistributionFinder):
    """A finder of installed packages that loads a configuration when it is asked again: at first files are checked."""

    def __init__(self, loads_at: int) -> None:
        self.asked, self.loads_at = 0, loads_at

    def find_spec(self, *_: object) -> ModuleSpec | None:
        """Find no module."""
        return None

    def find_distributions(self, context: object = None) -> list[Distribution]:
        """Load the configuration; find nothing."""
        self.asked += 1
        if self.asked == self.loads_at:
            sys.modules["host_of_files"].load()
        return []


@pytest.fixture(params=["function", "finder", "late finder", "plugin"])
def moment(request: pytest.FixtureRequest, site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """When `b.toml` is loaded in the load of `a.toml`: as functions or plugins are found, or by a plugin's code."""
    moment: str = request.param
    site.install("host-of-files", HOST, points="")
    site.install("functions", (LOAD if moment == "function" else "") + FUNCTION, points="")
    site.install("acme", (LOAD if moment == "plugin" else "") + write_tool("ping"))
    site.install("beta", write_tool("pong"))
    if "finder" in moment:
        finder = LoadingFinder(2 if moment == "finder" else 3)
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    return moment


def get_host() -> ToolRegistry:
    """Return the registry of the host."""
    import host_of_files

    registry: ToolRegistry = host_of_files.registry
    return registry


def restart_finder(asked: int) -> None:
    """Let the finder, where there is one, count from a number on."""
    if isinstance(finder := sys.meta_path[-1], LoadingFinder):
        finder.asked = asked


def describe(registry: ToolRegistry) -> tuple[object, ...]:
    """Return all that the two configurations set."""
    runtime = get_runtime(registry)
    limits = [(limit.agent, limit.per_minute) for limit in registry.limits.all()]
    tools = sorted((tool.name, str(tool.metadata.owned_by)) for tool in registry)
    reports = sorted((report.distribution, report.stage) for report in plugin_reports(registry))
    handler = getattr(runtime.approvals.handler, "__name__", None)
    return runtime.options.timeout, runtime.options.errors, limits, handler, tools, reports


@pytest.mark.parametrize("own", ["", "[execution]\ntimeout = 3\n"], ids=["", "timeout"])
@pytest.mark.parametrize("plugins", ["", BETA, ACME + BETA], ids=["none", "another", "both"])
def test_all_that_it_says_is_in_force(moment: str, own: str, plugins: str) -> None:
    """Its settings and its plugins are there, and what both set is as the outer one says."""
    Path("a.toml").write_text(own + ACME + ADD)
    Path("b.toml").write_text(SETTINGS + plugins)
    registry = get_host()
    registry.configure_from("a.toml")

    pong = [("pong", "plugin:beta")] if plugins else []
    tools = [("add", "None"), ("ping", "plugin:acme"), *pong]
    reports = [("acme", "loaded"), *([("beta", "loaded")] if plugins else [])]
    expected = 3 if own else 7, "masked", [("eve", 5)], "allow", tools, reports
    assert expected == describe(registry)
    registry.configure_from("b.toml")
    registry.configure_from("a.toml")
    assert expected == describe(registry)


@pytest.mark.parametrize("first", ["a.toml", "b.toml"])
def test_what_it_does_not_say_any_more_ends(moment: str, first: str) -> None:
    """Broken promise: a plugin that it named was forgotten by the outer load, and stayed when nothing named it."""
    Path("a.toml").write_text(ACME + ADD)
    Path("b.toml").write_text(SETTINGS + BETA)
    registry = get_host()
    registry.configure_from("a.toml")
    files = {"a.toml": ADD, "b.toml": "[agents.bob]\n"}
    left = {"a.toml": ["add", "pong"], "b.toml": ["add", "ping"]}
    Path(first).write_text(files[first])
    registry.configure_from(first)

    assert left[first] == sorted(tool.name for tool in registry)


def test_what_it_takes_out_is_not_put_in_again(moment: str) -> None:
    """Broken promise: the outer load went on with the plugins that were named before, and brought one back."""
    Path("a.toml").write_text("[agents.ann]\n")
    Path("b.toml").write_text(SETTINGS + BETA)
    registry = get_host()
    restart_finder(-100)
    registry.configure_from("a.toml")
    registry.configure_from("b.toml")
    Path("a.toml").write_text(ACME + ADD)
    Path("b.toml").write_text("[agents.bob]\n")
    restart_finder(0)
    registry.configure_from("a.toml")

    assert ["add", "ping"] == sorted(tool.name for tool in registry)
    assert 30 == get_runtime(registry).options.timeout


def test_one_that_contradicts_the_outer_one(moment: str) -> None:
    """The outer load is refused, as where the other one had been loaded before."""
    Path("a.toml").write_text(ACME + ADD)
    Path("b.toml").write_text(SETTINGS + '[plugins.acme]\nowned_by = "bob"\n')
    registry = get_host()
    with pytest.raises(ConfigError, match="says something else of it"):
        registry.configure_from("a.toml")

    brought = [] if moment == "plugin" else [("ping", "bob")]  # the load whose plugin it is was refused
    assert brought == describe(registry)[4]
    registry.configure_from("b.toml")
    assert [("ping", "bob")] == describe(registry)[4]


def test_both_of_one_name(moment: str) -> None:
    """Files of one name in two folders are two configurations, also where one is loaded inside of the other."""
    for folder, text in (("one", ACME + ADD), ("two", SETTINGS + BETA)):
        Path(folder).mkdir()
        (Path(folder) / "tools.toml").write_text(text)
    registry = get_host()
    sys.modules["host_of_files"].file = "two/tools.toml"  # type: ignore[attr-defined]
    registry.configure_from("one/tools.toml")
    (Path("one") / "tools.toml").write_text(ADD)
    registry.configure_from("one/tools.toml")

    assert ["add", "pong"] == sorted(tool.name for tool in registry)


def test_the_code_of_a_plugin_loads_none(site: Site) -> None:
    """It runs in the plugin's name, and a configuration is for the operator: the plugin fails, the rest counts."""
    site.install(
        "host-of-files",
        HOST.replace("Context().run(registry.configure_from, file)", "registry.configure_from(file)"),
        points="",
    )
    site.install("functions", FUNCTION, points="")
    site.install("acme", LOAD + write_tool("ping"))
    Path("a.toml").write_text(ACME + ADD)
    Path("b.toml").write_text(SETTINGS)
    registry = get_host()
    with pytest.warns(PluginWarning, match="'plugin:acme' may not load a configuration"):
        registry.configure_from("a.toml")

    assert (30, "message", [], None, [("add", "None")], [("acme", "import")]) == describe(registry)
