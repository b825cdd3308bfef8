"""The default registry: what is installed loads into it by itself, at its first look-up."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
from plugin_rig import HEAD, Site, build_environment, names, site, write_config, write_tool  # noqa: F401

from praval_tools import (
    Agent,
    PluginWarning,
    ToolCall,
    ToolCollection,
    ToolRegistry,
    autoload,
    get_tool_registry,
    load_plugins,
    plugin_reports,
    reset_tool_registry,
    tool,
    use_registry,
)
from praval_tools.compat import praval

COUNTED = HEAD + "import sys\nsys.imports_of_acme = getattr(sys, 'imports_of_acme', 0) + 1\n"
"""The head of a plugin that counts how often it was imported."""

LOOKS: dict[str, Callable[[], object]] = {
    "list": lambda: get_tool_registry().list_all_tools(),
    "length": lambda: len(get_tool_registry()),
    "get": lambda: get_tool_registry().get_tool("acme_one"),
    "toolset": lambda: list(get_tool_registry().toolset("ann")),
    "explain": lambda: get_tool_registry().explain("ann", "acme_one"),
    "export": lambda: get_tool_registry().schemas("ann"),
    "problems": lambda: get_tool_registry().problems(),
    "call": lambda: get_tool_registry().execute("1", "acme_one"),
    "call of an agent": lambda: get_tool_registry().execute(ToolCall("1", "acme_one", agent="ann")),
    "call of a toolset": lambda: get_tool_registry().toolset("ann").execute(ToolCall("1", "acme_one")),
    "assign": lambda: get_tool_registry().assign_tool_to_agent("acme_one", "ann"),
    "share": lambda: get_tool_registry().share_tool("acme_one"),
    "add to an agent": lambda: get_tool_registry().agent("ann").add_tool("acme_one"),
    "add to a collection": lambda: ToolCollection("all").add_tool("acme_one"),
    "Praval": lambda: praval.get_tool_registry().list_all_tools(),
    "Praval by name": lambda: praval.get_tool_registry().get_tool("acme_one"),
}


@pytest.fixture(autouse=True)
def registry(site: Site) -> Iterator[None]:
    """A default registry that nobody has looked at, and a plugin that is installed and not imported."""
    reset_tool_registry()
    site.install("acme", COUNTED + write_tool("acme_one", ""))
    sys.imports_of_acme = 0  # type: ignore[attr-defined]
    yield
    reset_tool_registry()


def count_imports() -> int:
    """Return how often the plugin was imported."""
    count: int = sys.imports_of_acme  # type: ignore[attr-defined]
    return count


class TestFirstLook:
    """Broken promise: plugins are there after `pip install`; the default registry was empty until `autoload()`."""

    @pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
    def test_it_loads_what_is_installed(self, look: Callable[[], object]) -> None:
        """Whatever asks for a tool finds those of plugins; they are loaded once."""
        assert 0 == count_imports()
        look()
        look()

        assert (1, ["acme_one"]) == (count_imports(), names(get_tool_registry()))
        assert ["loaded"] == [report.stage for report in plugin_reports()]

    def test_installed_is_not_granted(self) -> None:
        """Nobody may call what was loaded before the operator says so."""
        registry = get_tool_registry()

        assert not registry.explain("ann", "acme_one").allowed
        assert "plugin:acme" == registry.list_all_tools()[0].metadata.owned_by

    def test_declarations_come_first(self) -> None:
        """What a program declares before its first look-up keeps its name; the plugin that clashes is kept out."""

        @tool("acme_one", owned_by="ann")
        def mine() -> str:
            """Tell."""
            return "mine"

        Agent("ann", tools=["acme_one"])
        praval.get_tool_registry()

        @praval.tool("hers", owned_by="eve")
        def hers() -> str:
            """Tell."""
            return "hers"

        assert 0 == count_imports()
        with pytest.warns(PluginWarning, match="acme_one"):
            assert "mine" == get_tool_registry().agent("ann").call("acme_one")
        assert ["clash"] == [report.stage for report in plugin_reports()]

    def test_resetting_looks_at_nothing(self) -> None:
        """`reset_tool_registry` loads nothing, and the next registry gets the plugins again, without another import."""
        praval.reset_tool_registry()
        assert 0 == count_imports()

        before = get_tool_registry()
        assert ["acme_one"] == names(before)
        reset_tool_registry()

        assert (["acme_one"], 1) == (names(get_tool_registry()), count_imports())
        assert get_tool_registry() is not before

    def test_autoload_does_it_earlier(self) -> None:
        """It returns the report, before and after the first look-up."""
        (report,) = autoload()
        assert (1, "loaded", ["acme_one"]) == (count_imports(), report.stage, names(get_tool_registry()))
        assert (report,) == autoload()

    def test_what_a_program_chose_stays(self) -> None:
        """Where a program loaded some plugins itself, the first look-up loads no others."""
        load_plugins(exclude=["acme"])
        assert ([], 0) == (names(get_tool_registry()), count_imports())

    def test_inside_of_a_change(self) -> None:
        """A change may be undone, so that a look-up inside of it waits for the next one."""
        registry = get_tool_registry()
        with registry.change():
            assert [] == names(registry)
        assert ["acme_one"] == names(registry)


class TestSwitches:
    """Broken promise: the operator says whether plugins are loaded at all."""

    def test_a_registry_of_ones_own(self) -> None:
        """It has what `load_plugins` brings, also as the default one inside of `use_registry`."""
        with use_registry(ToolRegistry()):
            assert [] == names(get_tool_registry())
        assert 0 == count_imports()

    @pytest.mark.parametrize(("listed", "expected"), [("", []), ("other", []), ("acme", ["acme_one"])])
    def test_the_environment(self, listed: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """`PRAVAL_TOOLS_PLUGINS` lists what may be loaded; empty, nothing may."""
        monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", listed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)
            assert expected == names(get_tool_registry())
        assert len(expected) == count_imports()

    def test_the_configuration(self) -> None:
        """`autoload = false` leaves it to the program."""
        write_config("[plugins]\nautoload = false\n")
        assert ([], 0) == (names(get_tool_registry()), count_imports())
        autoload()
        assert ["acme_one"] == names(get_tool_registry())

    def test_an_import_loads_nothing(self, site: Site) -> None:
        """`import praval_tools` imports no plugin, and neither do declarations."""
        source = "import praval_tools, sys\n@praval_tools.tool\ndef f() -> None: 'F.'\nassert 'acme' not in sys.modules"
        subprocess.run([sys.executable, "-c", source], env=build_environment(site), check=True, timeout=100)


class TestFailures:
    """Broken promise: a broken plugin harms nobody else, and is reported."""

    @pytest.mark.parametrize("action", ["always", "error"])
    def test_a_plugin_that_fails(self, site: Site, action: str) -> None:
        """It is a warning and a problem of the registry; the look-up gets the tools of the others, in any case."""
        site.install("broken", "raise RuntimeError('no licence')\n")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action, PluginWarning)  # type: ignore[arg-type]
            assert ["acme_one"] == names(get_tool_registry())

        assert ["always"] * len(caught) == [action for _ in caught if "no licence" in str(_.message)]
        (problem,) = [one for one in get_tool_registry().problems() if one.kind == "plugin"]
        assert "broken" == problem.subject and "no licence" in problem.message

    def test_a_configuration_that_cannot_be_read(self) -> None:
        """Nothing is loaded, with a warning and a problem that name the mistake; the look-up itself succeeds."""
        write_config('[plugins.acme]\ntrust = "yes"\n')
        with pytest.warns(PluginWarning, match="trust"):
            assert [] == names(get_tool_registry())

        assert ["plugin"] == [one.kind for one in get_tool_registry().problems() if "trust" in one.message]


class TestOnce:
    """Broken promise: plugins are loaded once, whoever asks while they are."""

    def test_threads_that_look_at_once(self, site: Site) -> None:
        """Each waits for the one loading, and finds every tool."""
        site.install("slow", HEAD + "import sys\nsys.looking.wait(60)\n" + write_tool("slow_one", ""))
        started, found = threading.Barrier(5), list[list[str]]()
        sys.looking = threading.Event()  # type: ignore[attr-defined]

        def look() -> None:
            started.wait(60)
            found.append(names(get_tool_registry()))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait(60)
        sys.looking.set()  # type: ignore[attr-defined]
        for thread in threads:
            thread.join(60)

        assert ([["acme_one", "slow_one"]] * 4, 1) == (found, count_imports())

    def test_a_plugin_that_looks_itself(self, site: Site) -> None:
        """A look-up while a plugin is imported finds its own registry, or what was there before, and loads nothing."""
        registry = get_tool_registry()
        sys.held_registry = registry  # type: ignore[attr-defined]
        source = "import sys\nseen = [len(get_tool_registry()), len(sys.held_registry)]\n"
        site.install("looker", HEAD + source + write_tool("looker_one", ""))

        assert ["acme_one", "looker_one"] == names(registry)
        assert (1, [0, 0]) == (count_imports(), sys.modules["looker"].seen)

    def test_a_plugin_of_another_registry(self, site: Site) -> None:
        """While it is imported there, its look-up of the default registry loads nothing; the program's next does."""
        registry = get_tool_registry()
        sys.held_registry = registry  # type: ignore[attr-defined]
        site.install("looker", HEAD + "import sys\nseen = len(sys.held_registry)\n")
        load_plugins(ToolRegistry(), only=["looker"])
        assert (0, 0) == (sys.modules["looker"].seen, count_imports())

        assert ["acme_one"] == names(registry)

    def test_as_the_program(self) -> None:
        """The first look-up may be an agent's: what is loaded does not depend on who looks."""
        registry = ToolRegistry()

        @registry.tool("look", owned_by="ann")
        def look() -> list[str]:
            """Look."""
            return names(get_tool_registry())

        assert ["acme_one"] == registry.agent("ann").call("look")
