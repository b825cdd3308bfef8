"""
Runs the published `praval` package on a registry of `praval_tools`; extra `praval`.

`install` makes a registry the one that Praval uses, `attach` makes one of its agents call through it,
`migrate` brings in the tools of the old system.
"""

from praval_tools.integrations.praval.attachment import Attachment, attach
from praval_tools.integrations.praval.installation import Installation, install, uninstall
from praval_tools.integrations.praval.migration import Migration, Moved, migrate
from praval_tools.integrations.praval.praval_modules import TESTED

__all__ = ["TESTED", "Attachment", "Installation", "Migration", "Moved", "attach", "install", "migrate", "uninstall"]
