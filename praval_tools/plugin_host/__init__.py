"""The plugin host: finds installed plugins, loads each by itself, and reports what became of it."""

from praval_tools.plugin_host.loading import autoload, load_plugins, plugin_reports
from praval_tools.plugin_host.report import PluginReport

__all__ = ["PluginReport", "autoload", "load_plugins", "plugin_reports"]
