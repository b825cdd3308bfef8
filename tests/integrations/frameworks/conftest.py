"""The frameworks, one after the other."""

from __future__ import annotations

import pytest
from framework_contract import Framework
from framework_list import FRAMEWORKS, load_framework


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Framework:
    """A framework that is installed."""
    return load_framework(request.param)
