"""Importing plugins that share packages, patch the registry or lie about themselves."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
from plugin_rig import (
    HEAD,
    HELPER,
    Site,
    load_and_list,
    loaded,
    names,
    return_one,
    site,  # noqa: F401
    write_tool,
)

import praval_tools
from praval_tools import (
    PluginWarning,
    ToolRegistry,
    load_plugins,
    plugin_reports,
    tool,
    use_registry,
)


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


class TestAttacks:
    def test_tools_in_packages_that_share_a_name(self, site: Site, registry: ToolRegistry) -> None:
        """Two distributions in one top-level package: each has its own tools."""
        (site.folder / "shared").mkdir()
        for name in ("aaa", "zzz"):
            (site.folder / "shared" / name).mkdir()
            (site.folder / "shared" / name / "__init__.py").write_text(write_tool(f"of_{name}"))
            site.install(f"shared-{name}", module=f"unused_{name}", value=f"shared.{name}")
        (site.folder / "shared" / "aaa" / "__init__.py").write_text("import shared.zzz\n" + write_tool("of_aaa"))
        site.modules.append("shared")
        reports = loaded(registry)

        assert {"shared-aaa": ("of_aaa",), "shared-zzz": ("of_zzz",)} == {
            name: one.tools for name, one in reports.items()
        }

    def test_two_entry_points_of_one_module(self, site: Site, registry: ToolRegistry) -> None:
        """The second brings the same names, and is kept out; the first works."""
        site.install("acme", write_tool("one"), points="[praval_tools]\na = acme\nb = acme\n")
        first, second = load_and_list(registry)

        assert (True, "clash", ["one"]) == (first.loaded, second.stage, names(registry))

    def test_a_patched_registry_does_not_help(self, site: Site, registry: ToolRegistry) -> None:
        """What a plugin does to the default registry at import happens in its own name, to a registry of its own."""
        host = ToolRegistry()
        host.tool("mine", owned_by="ann")(return_one)
        source = HEAD + (
            "r = get_tool_registry()\n"
            "r.register_tool(Tool.from_function(lambda: 1, 'mine', description='d'), replace=False)\n"
            "r.share_tool('mine')\n"
        )
        site.install("acme", source)
        with use_registry(host):
            reports = loaded(host)

        assert reports["acme"].failed
        assert ("ann", False) == (host.get_tool("mine").metadata.owned_by, host.get_tool("mine").metadata.shared)

    def test_an_exception_group_and_a_long_chain(self, site: Site, registry: ToolRegistry) -> None:
        """Groups and chains of hundreds of causes are contained and cut."""
        site.install("group", "raise ExceptionGroup('many', [ValueError(str(at)) for at in range(1000)])")
        chain = "error = None\nfor at in range(500):\n    new = ValueError('x' * 100)\n    new.__cause__ = error\n"
        site.install("chain", f"{chain}    error = new\nraise error")
        reports = loaded(registry)

        assert {"import"} == {one.stage for one in reports.values()}
        assert all(len(one.traceback) < 5_000 for one in reports.values())

    def test_secrets_in_the_errors_of_hooks(self, site: Site, registry: ToolRegistry) -> None:
        """A hook that tells a secret of the settings in its error, long after loading, does not get it reported."""
        source = HEAD + (
            "from attrs import frozen\nkept = []\n@frozen\nclass S:\n    token: str\n"
            "@hookimpl\ndef praval_tools_settings():\n    return S\n"
            "@hookimpl\ndef praval_tools_register_tools(settings):\n    kept.append(settings)\n    return []\n"
            "@hookimpl\ndef praval_tools_after_call():\n    raise ValueError(kept[0].token)\n"
        )
        site.install("acme", source)
        registry.journal = "memory"
        load_plugins(registry, settings={"acme": {"token": "tok-12345"}})
        with pytest.warns(PluginWarning, match=r"\[secret\]") as warned:
            registry.execute("1", "nope", {})

        output = [*map(str, plugin_reports(registry)), *map(str, registry.journal.events()), str(warned[0].message)]
        assert [] == [text for text in output if "tok-12345" in text]

    def test_a_module_of_another_plugin_is_imported_early(self, site: Site, registry: ToolRegistry) -> None:
        """Each plugin has its own tools, whoever imported its module first."""
        site.install("aaa", "import zzz\n" + write_tool("of_a"))
        site.install("zzz", write_tool("of_z"))
        reports = loaded(registry)

        assert (("of_a",), ("of_z",)) == (reports["aaa"].tools, reports["zzz"].tools)
        assert "zzz" == registry.get_tool("of_z").metadata.source.distribution

    def test_a_plugin_that_keeps_its_staging_registry(self, site: Site, registry: ToolRegistry) -> None:
        """What it saw as the default registry is closed, and reaches nothing."""
        looks = "mine = get_tool_registry()\nassert [t.name for t in mine] == ['a']\n"
        site.install("acme", write_tool("a") + looks)
        load_plugins(registry)
        mine = sys.modules["acme"].mine

        assert mine is not registry
        with pytest.raises(praval_tools.RegistryClosedError):
            mine.register_tool(tool("x", register=False)(return_one))
        assert ["a"] == names(registry)

    def test_a_staging_registry_that_is_kept_unread(self, site: Site, registry: ToolRegistry) -> None:
        """One that nobody looked at before it was closed shows the declared tools, and is closed as well."""
        site.install("acme", write_tool("b") + write_tool("a") + "mine = get_tool_registry()\n")
        load_plugins(registry)
        mine = sys.modules["acme"].mine

        assert ["b", "a"] == [one.name for one in mine.list_all_tools()]
        with pytest.raises(praval_tools.RegistryClosedError):
            mine.register_tool(tool("x", register=False)(return_one))
        with pytest.raises(praval_tools.RegistryClosedError):
            mine.execute_tool("a")
        assert ["b", "a"] == [one.name for one in mine.fork()]
        assert [2, False, "staging of acme 1.0 (acme)"] == [len(mine), hasattr(mine, "unknown"), mine.name]

    def test_tools_declared_before_and_after_a_look(self, site: Site, registry: ToolRegistry) -> None:
        """A plugin sees at once what it declared, and may go on to declare."""
        source = (
            write_tool("a") + "mine = get_tool_registry()\n"
            "assert mine.get_tool('a') is a and 'a' in mine and mine.get_tool_info('a')\n"
        )
        site.install("acme", source + write_tool("b") + "assert [one.name for one in mine] == ['a', 'b']\n")

        assert ("a", "b") == loaded(registry)["acme"].tools

    @pytest.mark.parametrize("look", ["", "assert len(get_tool_registry()) == 1\n"])
    def test_two_tools_of_one_name_in_a_module(self, site: Site, registry: ToolRegistry, look: str) -> None:
        """The second of them fails the import, whether the registry was looked at before or not."""
        site.install("acme", write_tool("a") + look + "@tool('A')\ndef other() -> int:\n    'd'\n    return 2\n")
        error = loaded(registry)["acme"]

        assert ("import", True) == (error.stage, "already registered" in str(error.error))

    def test_agents_beside_tools(self, site: Site, registry: ToolRegistry) -> None:
        """Tools that come before and after an agent are all of the plugin; those that its threads declare are, too."""
        source = write_tool("a") + "from praval_tools import Agent\nann = Agent('ann', tools=['a'])\n"
        source += write_tool("b")
        source += "import threading, contextvars\nwork = contextvars.copy_context().run\n"
        source += "def late() -> int:\n    'd'\n    return 3\n"
        source += "thread = threading.Thread(target=work, args=(tool, late))\nthread.start()\nthread.join()\n"
        site.install("acme", source)
        reports = load_plugins(registry, config={"plugins": {"acme": {"trust": True}}})

        assert [("a", "b", "late")] == [one.tools for one in reports]
        assert ["a"] == list(registry.toolset("ann"))

    @pytest.mark.parametrize("body", [
        "import importlib\n    return importlib.import_module(f'{__name__}.{name}')",
        "raise KeyError(name)",
        "return lambda *arguments: None",
    ], ids=["imports", "raises", "has all"])  # fmt: skip
    def test_a_module_that_makes_its_attributes(self, site: Site, registry: ToolRegistry, body: str) -> None:
        """A module with a `__getattr__`, such as one that imports its parts when they are used, is loaded as any."""
        site.install("acme", f"{write_tool('one')}def __getattr__(name):\n    {body}\n")

        assert [("one",), ("one",)] == [loaded(each)["acme"].tools for each in (registry, ToolRegistry())]

    def test_objects_that_lie_about_themselves(self, site: Site, registry: ToolRegistry) -> None:
        """A plugin object whose attributes and comparisons raise is contained."""
        site.install("liar", HEAD + '''
class Liar:
    def __getattr__(self, name): raise RuntimeError("no " + name)
    def __dir__(self): raise RuntimeError("no dir")
    def __eq__(self, other): raise RuntimeError("no eq")
    __hash__ = None
liar = Liar()
''', value="liar:liar")  # fmt: skip
        site.good("zzz")
        reports = loaded(registry)

        assert ("hooks", True) == (reports["liar"].stage, reports["zzz"].loaded)


class TestModulesThatAreGone:
    @pytest.mark.parametrize("source", [
        write_tool("one"),
        write_tool("one") + "import sys\nitself = sys.modules[__name__]\n",
        HEAD + HELPER,
        write_tool("one") + "@hookimpl\ndef praval_tools_register_tools():\n    return [one]\n",
    ], ids=["tool", "a module that holds itself", "agent", "hook"])  # fmt: skip
    def test_are_let_go_with_what_they_declared(self, site: Site, source: str) -> None:
        """What a module declared is known as long as the module, for every registry, and no longer."""
        name = site.install("acme", source)
        registries = [ToolRegistry(), ToolRegistry()]
        first, second = (names(each) for each in registries if load_and_list(each))
        module = weakref.ref(sys.modules[name])

        for registry in registries:
            registry.close()
        registries.clear()
        del registry
        site.forget()
        gc.collect()

        assert first == second != []
        assert module() is None
