"""Types that do not go together (`apache_beam.typehints.TypeCheckError`)."""

from __future__ import annotations

from headrace.lowlevel.errors import HeadraceError


class TypeCheckError(HeadraceError, TypeError):
    """Both types and both steps are named. While a pipeline is built: nothing has run."""
