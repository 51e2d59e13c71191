"""What became of a table's columns, in a model file: the option `columns` and the fitted transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.columns import AUTO, NUMERIC, ColumnsOption, checked_columns
from sodgp.estimator.files.record_fields import decode_names, refuse
from sodgp.tables.encoder import TableEncoder

if TYPE_CHECKING:
    from sodgp.estimator.fitted import Columns

__all__ = ["decode_columns", "encode_columns", "input_names"]


def encode_columns(option: ColumnsOption, columns: Columns) -> dict[str, Any] | None:
    """Option and transformer as JSON; None where the option is the default, and X was numbers as they are."""
    encoder = columns.encoder
    if encoder is None and isinstance(option, str) and option == AUTO:
        return None
    return {"option": _plain(option), "encoder": None if encoder is None else encoder.state()}


def _plain(option: ColumnsOption) -> Any:
    if isinstance(option, str):
        return option
    encoder = option if isinstance(option, TableEncoder) else TableEncoder(option)
    kinds = {name: kind if isinstance(kind, str) else list(kind) for name, kind in (encoder.kinds or {}).items()}
    if not isinstance(option, TableEncoder):
        return {"kinds": kinds}
    return {"kinds": kinds, "missing": list(encoder.missing), "max_levels": encoder.max_levels}


def decode_columns(info: Mapping[str, Any], inputs: int) -> tuple[ColumnsOption, TableEncoder | None]:
    """The option and the transformer of a model with so many inputs.

    Raises
    ------
    ModelFileError
        The entry is damaged, or is of another number of inputs.
    """
    entry = info.get("columns")
    if entry is None:
        return AUTO, None
    if not isinstance(entry, dict) or entry.keys() != {"option", "encoder"}:
        refuse("columns", "not what became of a table")
    option = _option(entry["option"])
    if entry["encoder"] is None:
        return option, None
    encoder = TableEncoder.from_state(entry["encoder"])
    if len(encoder.groups_) != inputs:
        refuse("columns", f"of {len(encoder.groups_)} inputs, and the model has {inputs}")
    return option, encoder


def input_names(info: Mapping[str, Any], inputs: int, encoder: TableEncoder | None) -> NDArray[np.object_] | None:
    """Names of the columns of X, where there are some; those of a table must be those of its transformer."""
    names = decode_names(info, "feature_names", inputs if encoder is None else encoder.n_features_in_)
    if encoder is not None and (names is None or list(names) != list(encoder.feature_names_in_)):
        refuse("feature_names", "other ones than those of its columns")
    return names


def _option(value: Any) -> ColumnsOption:
    if value in (AUTO, NUMERIC):
        return str(value)
    if not isinstance(value, dict) or value.keys() not in ({"kinds"}, {"kinds", "missing", "max_levels"}):
        refuse("columns.option", "unknown")
    if not isinstance(value["kinds"], dict):
        refuse("columns.option", "no mapping")
    kinds = {name: tuple(kind) if isinstance(kind, list) else kind for name, kind in value["kinds"].items()}
    try:
        option: ColumnsOption = kinds
        if "missing" in value:
            option = TableEncoder(kinds or None, tuple(value["missing"]), value["max_levels"])
        checked_columns(option)
    except (ConfigurationError, TypeError) as error:
        raise ModelFileError(f"its entry 'columns.option' is wrong: {error}") from error
    return option
