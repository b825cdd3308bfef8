"""
The published `praval` package on a registry of `praval_tools`; extra `praval`.

`install` makes a registry the one that Praval uses, `attach` makes one of its agents call through it,
`migrate` brings in the tools of the old system.
"""

from praval_tools.integrations.praval.attaching import Attachment, attach
from praval_tools.integrations.praval.installing import Installation, install, uninstall
from praval_tools.integrations.praval.loading import TESTED
from praval_tools.integrations.praval.migrating import Migration, Moved, migrate

__all__ = ["TESTED", "Attachment", "Installation", "Migration", "Moved", "attach", "install", "migrate", "uninstall"]
