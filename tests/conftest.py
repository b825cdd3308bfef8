"""
Hypothesis profiles: `ci` looks further than the default, `fuzz` further still and elsewhere at every run.

The first two draw the same examples at every run, so that a red run is always about the change that was made.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

KEPT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=50, derandomize=True, **KEPT)
settings.register_profile("ci", max_examples=200, derandomize=True, **KEPT)
settings.register_profile("fuzz", max_examples=1_000, **KEPT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
