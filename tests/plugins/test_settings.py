"""The settings of a plugin: from the operator's table, as the plugin's own class, and secret."""

from __future__ import annotations

from typing import Any

import pytest
from plugin_rig import PLUGIN_WITH_SETTINGS, Site, loaded, names, site, write_config  # noqa: F401

from praval_tools import PluginWarning, ToolRegistry, load_plugins
from praval_tools.config.plugins import read_plugins_config


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


class TestSettings:
    def test_they_come_as_the_plugins_own_class(self, site: Site, registry: ToolRegistry) -> None:
        """Structured from the table, nested classes and lists too."""
        site.install("acme", PLUGIN_WITH_SETTINGS)
        write_config('''[plugins.acme.settings]
url = "sqlite:///x"
rows = 3
ratio = 1
root = "/data"
inner = { hosts = ["a", "b"], ports = { a = 1 } }
''')  # fmt: skip
        load_plugins(registry)

        output = registry.execute_tool("output")
        assert "url='sqlite:///x', rows=3, ratio=1.0" in output
        assert "root=PosixPath('/data')" in output or "root=WindowsPath" in output
        assert "Inner(hosts=['a', 'b'], ports={'a': 1})" in output

    def test_every_problem_of_the_settings(self, site: Site, registry: ToolRegistry) -> None:
        """Wrong types, refused values, unknown and missing keys, at any depth; the plugin is kept out."""
        site.install("acme", PLUGIN_WITH_SETTINGS)
        path = write_config('''[plugins.acme.settings]
rows = "many"
ratio = "half"
fast = "s3cret-value"
rots = "/data"
[plugins.acme.settings.inner]
hosts = ["a", 7]
ports = { a = "s3cret-port" }
''')  # fmt: skip
        report = loaded(registry)["acme"]

        assert ("settings", []) == (report.stage, names(registry))
        places = {2: "rows", 3: "ratio", 4: "fast", 5: "rots", 7: "inner.hosts[1]", 8: "inner.ports.a"}
        for line, key in places.items():
            assert f"{path}, line {line}: plugins.acme.settings.{key}: " in str(report.error), key
        assert "plugins.acme.settings.url: missing" in str(report.error)
        assert "rots: unknown key; did you mean '" in str(report.error)
        assert "s3cret" not in str(report.error) + report.traceback

    def test_a_value_that_the_class_refuses(self, site: Site, registry: ToolRegistry) -> None:
        """What the plugin's own validator says is reported with the place of its table."""
        site.install("acme", PLUGIN_WITH_SETTINGS)
        path = write_config("[plugins.acme.settings]\nurl = ''\nrows = -8642\n")
        report = loaded(registry)["acme"]

        said = f"{path}, line 1: plugins.acme.settings: its class refuses the values: -8642 is not positive"
        assert said in str(report.error)

    @pytest.mark.parametrize("table", [{"settings": {"a": 1}}, {}])
    def test_a_plugin_that_takes_none(self, site: Site, registry: ToolRegistry, table: dict[str, Any]) -> None:
        """Settings for a plugin that takes none are an error."""
        site.good()
        report = loaded(registry, config={"plugins": {"acme": table}})["acme"]

        assert bool(table) == report.failed
        assert not table or "acme takes no settings" in str(report.error)

    def test_a_class_that_is_none(self, site: Site, registry: ToolRegistry) -> None:
        """The hook is to return an attrs class."""
        source = "from praval_tools import hookimpl\n@hookimpl\ndef praval_tools_settings():\n    return dict\n"
        site.install("acme", source)

        assert "attrs class" in str(loaded(registry)["acme"].error)

    def test_given_by_the_program(self, site: Site, registry: ToolRegistry) -> None:
        """`settings=` takes a table or an instance, instead of the configuration's."""
        site.install("acme", PLUGIN_WITH_SETTINGS)
        load_plugins(registry, settings={"Acme": {"url": "by table"}})
        assert "by table" in registry.execute_tool("output")
        import acme

        load_plugins(registry, settings={"acme": acme.Settings(url="by instance")})
        assert "by instance" in registry.execute_tool("output")

    def test_from_the_environment(self, site: Site, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """`${NAME}` is that variable; one that is not set is a problem like others."""
        site.install("acme", PLUGIN_WITH_SETTINGS)
        write_config('[plugins.acme.settings]\nurl = "${ACME_URL}"\nrows = "three"\n')
        text = str(loaded(registry)["acme"].error)
        assert "line 2: plugins.acme.settings.url: the environment variable ACME_URL is not set" in text
        assert "line 3: plugins.acme.settings.rows: expected a whole number" in text
        write_config('[plugins.acme.settings]\nurl = "${ACME_URL}"\n')
        monkeypatch.setenv("ACME_URL", "from-there")
        load_plugins(registry)

        assert "from-there" in registry.execute_tool("output")

    @pytest.mark.parametrize(("settings", "secrets"), [
        ({"url": "fail", "password": "hunter2-hunter2", "code": "c0de\nin two"}, ["hunter2", "c0de", "in two"]),
        ({"url": "postgresql://me:pass-in-url@host/db"}, ["pass-in-url"]),
        ({"url": "fail", "password": "${ACME_PASSWORD}"}, ["from-environment"]),
        ({"url": "x", "password": "refused-password"}, ["refused-password"]),
        ({"url": "x", "password": ["listed-password"]}, ["listed-password"]),
    ])  # fmt: skip
    def test_no_report_holds_a_secret(
        self, site: Site, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str],
        secrets: list[str],
    ) -> None:  # fmt: skip
        """What a plugin tells of its settings in its error is made unreadable: in report, traceback and journal."""
        site.install("acme", PLUGIN_WITH_SETTINGS)
        monkeypatch.setenv("ACME_PASSWORD", "from-environment")
        registry.journal = "memory"
        with pytest.warns(PluginWarning) as warned:
            reports = load_plugins(registry, config={"plugins": {"acme": {"settings": settings}}})

        output = [str(reports), str(reports[0]), reports[0].traceback, *(str(one.message) for one in warned)]
        output += [str(one) for one in registry.journal.events()]
        output += [repr(read_plugins_config({"plugins": {"acme": {"settings": settings}}}))]
        assert [] == [secret for secret in secrets for text in output if secret in text]
        assert "[secret]" in str(reports[0].error) or "expected a text" in str(reports[0].error)
