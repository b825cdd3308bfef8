"""Finding installed plugins, whatever their metadata say."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

import pytest
from plugin_rig import (
    Site,
    load_and_list,
    loaded,
    names,
    site,  # noqa: F401
    write_tool,
)

from praval_tools import (
    PluginWarning,
    ToolRegistry,
    load_plugins,
)
from praval_tools.plugins.discovery import AppFolder, find_plugins
from praval_tools.plugins.probe import probe_in_subprocess


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


class TestMetadata:
    @pytest.mark.parametrize(("more", "said"), [
        ({"metadata": "Metadata-Version: 2.1\nVersion: 1.0\n"}, "have no name"),
        ({"metadata": "Metadata-Version: 2.1\nName: ../../x\x1b[31m\nVersion: 1.0\n"}, "not a valid name of a"),
        ({"metadata": "Metadata-Version: 2.1\nName: odd\n"}, "no version"),
        ({"metadata": "Name: odd\nVersion: <script>\n"}, "which is not a valid one"),
        ({"metadata": ""}, "have no name"),
        ({"value": "not a module!"}, "not module or module:object"),
        ({"value": "odd:missing.attribute"}, "missing"),
        ({"value": "os.path:"}, "not module or module:object"),
        ({"points": "[praval_tools]\none = odd\none = odd:f\n"}, "two entry points"),
        ({"points": "[praval_tools]\nwithout an equals sign\n"}, "broken"),
    ])  # fmt: skip
    def test_hostile_metadata(self, site: Site, registry: ToolRegistry, more: dict[str, str], said: str) -> None:
        """A distribution whose metadata are broken or hostile is reported, and harms no other."""
        site.install("odd", "f = 1", **more)
        site.good("zzz")

        reports = load_and_list(registry)

        assert [True] * (len(reports) - 1) == [one.failed for one in reports if one.distribution != "zzz"]
        assert said in str(reports[0].error)
        assert "\x1b" not in str(reports[0].error)
        assert ["zzz_query", "zzz_count"] == names(registry)

    def test_two_versions_in_one_folder(self, site: Site, registry: ToolRegistry) -> None:
        """Nobody knows whose the files are: it is kept out, and its report says how to repair it."""
        site.good("acme", version="1.0")
        site.good("acme", version="2.0")
        reports = load_and_list(registry)

        assert [] == names(registry)
        assert {"find"} == {one.stage for one in reports}
        assert "versions 1.0 and 2.0" in str(reports[0].error)

    def test_the_first_folder_of_the_path_counts(
        self, site: Site, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As for `import`: a version further back is not there."""
        site.good("acme", version="1.0")
        front = tmp_path / "front"
        front.mkdir()
        Site(front).good("acme", version="3.0")
        monkeypatch.syspath_prepend(front)

        assert ["3.0"] == [one.version for one in load_plugins(registry)]

    def test_files_that_are_no_text(self, site: Site, registry: ToolRegistry) -> None:
        """Metadata of other encodings harm nobody."""
        site.good("acme")
        bad = site.folder / "noise-1.0.dist-info"
        bad.mkdir()
        (bad / "entry_points.txt").write_bytes(b"[praval_tools]\nx = y\n\xff\xfe\x00")

        assert "acme" in {one.distribution for one in load_and_list(registry) if one.loaded}


class TestWhatMayBeLoaded:
    """Broken promise: `PRAVAL_TOOLS_PLUGINS` says what may be loaded at all."""

    def test_an_entry_point_takes_no_distributions_place(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """The list names distributions: another one whose entry point has an allowed name is not loaded."""
        site.install("evil", "raise SystemExit('imported')", entry="acme")
        site.good("acme", module="acme_tools")
        monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", "acme")
        reports = loaded(ToolRegistry())

        assert {"acme": "loaded", "evil": "left out"} == {name: report.stage for name, report in reports.items()}

    @pytest.mark.parametrize("listed", ["acme:reports", "Acme : Reports"])
    def test_one_entry_point_of_a_distribution(self, site: Site, monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
        """`distribution:entry-point` allows that plugin alone."""
        site.good("acme", points="[praval_tools]\nreports = acme\nother = acme_other\n")
        monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", listed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", PluginWarning)
            reports = load_plugins(ToolRegistry())

        assert {"reports": "loaded", "other": "left out"} == {report.entry_point: report.stage for report in reports}

    def test_an_entry_point_alone_is_reported(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A list that still names an entry point loads nothing by it, and the report says what to write."""
        site.good("acme", entry="reports")
        monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", "reports")
        with pytest.warns(PluginWarning, match="write acme:reports"):
            reports = load_plugins(ToolRegistry())

        assert ["find", "left out"] == [report.stage for report in reports]

    def test_a_check_runs_no_other(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A plugin that the list forbids is not run by `plugins check` either."""
        mark = tmp_path / "mark"
        site.install("evil", f"open({str(mark)!r}, 'w').close()")
        monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", "other")
        (plugin,) = find_plugins()
        report = probe_in_subprocess(plugin, timeout=60)

        assert ("left out", False) == (report.stage, mark.exists())

    def test_a_check_outlives_what_is_written_anywhere(self, site: Site) -> None:
        """A plugin that writes to every descriptor that it may have inherited is reported like any other."""
        body = "import os\nfor number in range(3, 64):\n    try:\n        os.write(number, b'{}\\n')\n"
        site.install("noisy", f"{body}    except OSError:\n        pass\n{write_tool('noise')}")
        (plugin,) = find_plugins()
        report = probe_in_subprocess(plugin, timeout=60)

        assert ("loaded", ("noise",)) == (report.stage, report.tools)

    def test_the_folder_of_an_app_holds_none(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """What lies in the working directory, which `--app` puts on the path, was installed by nobody."""
        site.good("acme")
        monkeypatch.setattr(
            sys, "path", [AppFolder(site.folder), *(one for one in sys.path if one != str(site.folder))]
        )

        assert () == find_plugins()
        assert importlib.import_module("acme")
