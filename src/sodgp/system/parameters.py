"""Frozen objects of options that scikit-learn can read, clone and search."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

from sodgp.errors import ConfigurationError

__all__ = ["Parameters"]


class Parameters:
    """Base of a frozen dataclass whose fields are parameters in scikit-learn's sense.

    `sklearn.base.clone` copies it, and its estimator reaches its fields by a path (``inference__coupling``).
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Name and value of every field."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **changes: Any) -> Self:
        """A copy with other values; ConfigurationError for an unknown name or a bad value."""
        unknown = sorted(set(changes) - set(self.get_params()))
        if unknown:
            raise ConfigurationError(
                f"{type(self).__name__} has no parameter {', '.join(unknown)}; it has {', '.join(self.get_params())}."
            )
        return replace(self, **changes)  # type: ignore[type-var]
