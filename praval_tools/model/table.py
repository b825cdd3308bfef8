"""The table of types: every hint that has a JSON form, row by row."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.model.classes import CLASSES
from praval_tools.model.containers import CONTAINERS
from praval_tools.model.form import Form, no_hint
from praval_tools.model.forms import takes_of
from praval_tools.model.scalars import SCALARS
from praval_tools.model.texts import TEXTS
from praval_tools.model.wrappers import ALIAS, TRANSPARENT, UNION, annotated_form

_WRAPPERS: Final = (UNION, annotated_form(takes_of), TRANSPARENT, ALIAS)
FORMS: Final[tuple[Form, ...]] = (*SCALARS, *TEXTS, *CONTAINERS, *_WRAPPERS, *CLASSES)
"""Every row. Where two would fit, the first counts."""

BY_TYPE: Final[dict[Any, Form]] = {kind: form for form in reversed(FORMS) for kind in form.types}
BY_TEST: Final = tuple(form for form in FORMS if form.fits is not no_hint)
