"""A source as the data of a fit: its rows scaled and shuffled in a file, of which a step reads its own."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sodgp.data.sources import Source
from sodgp.errors import ConfigurationError, InputError, SodgpWarning
from sodgp.estimator.columns import ColumnsOption
from sodgp.estimator.files.target_fields import encode_transform
from sodgp.estimator.fitted import Columns, Fitted
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.stream.cache import Place, place_of
from sodgp.estimator.stream.survey import Survey, survey
from sodgp.estimator.stream.writer import SCALING, Writer, scalers_of
from sodgp.estimator.targets import n_latents
from sodgp.estimator.units import ScaledRows, held_out_count
from sodgp.inference.contract import Inference
from sodgp.inference.training_set import MappedSet, TrainingSet
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.selectors.base import Selector
from sodgp.system.mapped import MappedTable
from sodgp.system.notice import warn_user
from sodgp.training.held_out import HeldOut

__all__ = ["StreamedData", "streamed"]

logger = logging.getLogger("sodgp")

# Smaller sets of rows are taken from the file into memory; in some of them a step takes all rows.
IN_MEMORY_BYTES, IN_MEMORY_ROWS = 2**26, 2000
# Rows that selectors see whose cost or memory is that of pairs of rows, and subset_size="auto".
PART_ROWS = 50_000
_FORMAT = 1


@contextmanager
def streamed(
    source: Source, y: Any, config: Configuration, columns: ColumnsOption, previous: Fitted | None, *, as_classes: bool
) -> Iterator[StreamedData]:
    """The data of a fit; its file is removed at the end of the block where the source names no cache.

    Raises
    ------
    InputError
        The rows cannot be used.
    """
    if y is not None:
        raise InputError("a source of rows has its own targets, and y was given too: leave y out.")
    if source.cache is not None and source.state() is None:
        raise ConfigurationError(
            f"cache= keeps rows while their files do not change, and nobody can say that of {source.name}; leave it at"
            " None."
        )
    with place_of(source.cache) as place:
        found = survey(source, columns, previous, as_classes=as_classes)
        size = config.subset_size
        if isinstance(size, int) and size > found.n_rows:
            raise InputError(
                f"{source.name} has {found.n_rows} rows, fewer than subset_size={size}; use a smaller one."
            )
        yield StreamedData(source, found, place)


@dataclass(frozen=True)
class MappedRows(ScaledRows):
    """Rows in files."""

    files: tuple[MappedTable, MappedTable] | None = None

    def split(self, chosen: Tensor, dtype: torch.dtype) -> TrainingSet:
        """Subset and rest, which stay where they are."""
        assert self.files is not None
        return MappedSet(*self.files, len(self.numbers), chosen)

    def check(self, method: Inference) -> None:
        """As in `ScaledRows`."""
        if method.rows_given(1, len(self.numbers)) > 1:
            raise ConfigurationError(
                f"objective={method.objective!r} keeps all {len(self.numbers):,} rows in the model, and they are read"
                " from a source: use 'predictive' or 'bound'."
            )

    def seen_by(self, selector: Selector | None, size: int) -> tuple[Tensor, Tensor]:
        """As in `ScaledRows`: rows that are in a random order, all or the first of them."""
        rows = max(PART_ROWS, 10 * size)
        if getattr(selector, "takes_any_number", False) or len(self.X) <= rows:
            return self.X, self.y
        if selector is not None:
            warn_user(
                f"subset={type(selector).__name__} compares rows with each other: it chose from {rows:,} random rows of"
                f" the {len(self.X):,} of the source. 'kmeans' and 'random' see all of them.",
                SodgpWarning,
            )
        return self.X[:rows], self.y[:rows]


class StreamedData:
    """What `fit` was given: a source, after the first look. Takes the place of `sodgp.estimator.prepare.Data`."""

    noise_variance = None

    def __init__(self, source: Source, found: Survey, place: Place) -> None:
        self.source, self.found, self.place = source, found, place

    @property
    def columns(self) -> Columns:
        """Columns of X and y."""
        return self.found.columns

    def scaled(
        self,
        config: Configuration,
        likelihood: LikelihoodOptions,
        previous: Fitted | None,
        *,
        seed: int,
        predict_seed: int,
    ) -> ScaledRows:
        """All rows in the units of training, from the cache or into it.

        Their order is random and always the same; rows that are held out are the last of them, whatever the `seed`.
        """
        n_rows, n_classes = self.found.n_rows, self.found.n_classes
        outputs = n_latents(likelihood, n_classes) if n_classes else self.columns.n_targets
        n_held = held_out_count(config.validation_fraction, n_rows)
        dtype = str(config.dtype).removeprefix("torch.")
        key = self._key(config, likelihood, previous, dtype, n_held)
        width = self.found.width + outputs
        writer = Writer(self.source, self.found, config, likelihood, previous, n_rows - n_held, outputs, dtype)
        folder, about = self.place.entry(key, writer.write, needed=24 * n_rows * (width + 1))
        files = [
            MappedTable(folder / name, (n_rows, columns), kind)
            for name, columns, kind in (("X", self.found.width, dtype), ("y", outputs, dtype), ("rows", 1, "int64"))
        ]
        X, y, numbers = (each.array() for each in files)
        numbers, count = numbers.ravel(), n_rows - n_held
        scalers = scalers_of(about)
        held = None
        if n_held:
            X_h, y_h = (torch.from_numpy(np.array(values[count:])) for values in (X, y))
            held = HeldOut(
                X_h, y_h, scalers.log_scale - about["log_slope"], seed=predict_seed, n_samples=config.n_predict_samples
            )
        held_out = np.array(numbers[count:])
        if n_rows <= IN_MEMORY_ROWS or n_rows * width * X.itemsize <= IN_MEMORY_BYTES:
            X_t, y_t = (torch.from_numpy(np.array(values[:count], dtype=np.float64)) for values in (X, y))
            return ScaledRows(X_t, y_t, scalers, np.array(numbers[:count]), held_out, held)
        X_t, y_t = (each.tensor()[:count] for each in files[:2])
        return MappedRows(X_t, y_t, scalers, numbers[:count], held_out, held, files=(files[0], files[1]))

    def _key(
        self, config: Configuration, likelihood: LikelihoodOptions, previous: Fitted | None, dtype: str, n_held: int
    ) -> Mapping[str, Any]:
        """All that the file of scaled rows depends on; a source that cannot say it has the same rows for one fit."""
        columns, scaling = self.columns, None
        if previous is not None:
            scaled = (previous.x_scaler, previous.y_scaler)
            numbers: list[Any] = [getattr(each, name).tolist() for each in scaled for name in SCALING]
            numbers.append(encode_transform(previous.transform))
            scaling = hashlib.sha256(json.dumps(numbers).encode()).hexdigest()
        return {
            "format": _FORMAT,
            "source": self.source.state(),
            "targets": list(self.source.targets),
            "columns": None if columns.encoder is None else columns.encoder.state(),
            "classes": None if columns.classes is None else [str(label) for label in columns.classes],
            "y": [likelihood.targets, likelihood.name if self.found.n_classes else "", config.target_transform],
            "scaling": scaling,
            "dtype": dtype,
            "held out": n_held,
        }
