"""Finding installed plugins, whatever their metadata say."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_rig import (
    Site,
    load_and_list,
    names,
    site,  # noqa: F401
)

from praval_tools import (
    ToolRegistry,
    load_plugins,
)


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
