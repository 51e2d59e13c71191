"""Parameters of parameters, the way of scikit-learn: ``set_params(inference__coupling="joint")``."""

from __future__ import annotations

from typing import Any, Self, TypeVar

from sklearn.base import BaseEstimator

from sodgp.errors import ConfigurationError

E = TypeVar("E", bound=BaseEstimator)


class NestedParameters(BaseEstimator):
    """`get_params` and `set_params` that reach into arguments which are frozen objects, or names of such."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Names and values of all arguments, with `deep` also those of the objects in them.

        Examples
        --------
        >>> from sodgp import DeepGPRegressor
        >>> DeepGPRegressor().get_params()["inference__coupling"]
        'ancestral'
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            from sodgp.estimator.options.fields import OBJECTS  # with PyTorch, for which an import must not wait

            for name, object_of in OBJECTS.items():
                try:
                    inner = object_of(params[name])
                except ConfigurationError:  # a bad value is reported by fit
                    continue
                if inner is not None:
                    params |= {f"{name}__{key}": value for key, value in inner.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set arguments, also parts of objects: ``inference__coupling``, ``tuning__jitter``, ...

        Raises
        ------
        ConfigurationError
            For an unknown name within an object, or a bad value there.

        Examples
        --------
        >>> from sodgp import DeepGPRegressor
        >>> DeepGPRegressor().set_params(inference__coupling="joint", max_iter=10).inference.coupling
        'joint'
        """
        from sodgp.estimator.options.fields import OBJECTS

        plain: dict[str, Any] = {}
        inside: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, separator, inner = key.partition("__")
            if separator and name in OBJECTS:
                inside.setdefault(name, {})[inner] = value
            else:
                plain[key] = value
        super().set_params(**plain)
        for name, changes in inside.items():
            before = OBJECTS[name](getattr(self, name))
            if before is None:
                raise ConfigurationError(
                    f"{name}__{next(iter(changes))} cannot be set while {name} is None; set {name} first."
                )
            setattr(self, name, before.set_params(**changes))
        return self


def copy_of(estimator: E, **changes: Any) -> E:
    """A new estimator with the very same options but for changed ones; scikit-learn's clone would copy the objects."""
    return type(estimator)(**{**estimator.get_params(deep=False), **changes})
