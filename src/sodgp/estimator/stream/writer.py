"""Writes the rows of a source to a folder: in a random order, and scaled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sodgp.data.shuffle import Shuffle
from sodgp.data.sources import Source
from sodgp.errors import InputError
from sodgp.estimator.files.target_fields import decode_transform, encode_transform
from sodgp.estimator.fitted import Fitted
from sodgp.estimator.lost_signal import warn_of_lost_signal
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.stream.moments import standard_scaler
from sodgp.estimator.stream.survey import Part, Survey, inputs_of, parts_of, plain_numbers
from sodgp.estimator.targets import encoded
from sodgp.estimator.transforms import check_positive_targets, transform_for
from sodgp.estimator.units import Scalers, scalers_for
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.predictive.classes import codes_of
from sodgp.system.mapped import MappedTable
from sodgp.system.validation import FloatArray
from sodgp.tables.frames import is_frame
from sodgp.tables.news import News
from sodgp.tables.rows import numbers_in

__all__ = ["SCALING", "Writer", "scalers_of"]

# Random rows from which a transform of the targets is learned, and which are searched for columns with lost signal.
_TRANSFORM_ROWS, _LOOKED_AT = 1_000_000, 50_000
# Rows that are scaled at a time.
_ROWS = 2**17
SCALING = ("mean_", "var_", "scale_")
_SCALERS = ("x_scaler", "y_scaler", "x_seen", "y_seen")


class Writer:
    """Writes the rows of a source to a folder: first in a random order, then scaled."""

    def __init__(
        self,
        source: Source,
        found: Survey,
        config: Configuration,
        likelihood: LikelihoodOptions,
        previous: Fitted | None,
        n_train: int,
        outputs: int,
        dtype: str,
    ) -> None:
        self.source, self.found, self.likelihood, self.previous = source, found, likelihood, previous
        self.transform_name = config.target_transform
        self.n_train, self.outputs, self.dtype = n_train, outputs, dtype
        self.news = News(found.judged_by)

    def write(self, folder: Path) -> dict[str, Any]:
        """The files X, y and rows (their numbers in the source); returns what is to be known about them."""
        found = self.found
        width, n_rows = found.width, found.n_rows
        shuffle = Shuffle(folder, width + self.outputs + 1, n_rows)
        for block in self._blocks():
            shuffle.add(block)
        raw = {name: folder / f"{name}.raw" for name in ("X", "y")}
        with raw["X"].open("wb") as X_file, raw["y"].open("wb") as y_file, (folder / "rows").open("wb") as rows_file:
            for block in shuffle.rows():
                X_file.write(np.ascontiguousarray(block[:, :width]).data)
                y_file.write(np.ascontiguousarray(block[:, width:-1]).data)
                rows_file.write(block[:, -1].astype(np.int64).data)
        tables = [
            MappedTable(raw["X"], (n_rows, width), "float64"),
            MappedTable(raw["y"], (n_rows, self.outputs), "float64"),
        ]
        X, y = (table.array() for table in tables)
        self._warn_of_lost_signal(X, y)
        known = min(self.n_train, _TRANSFORM_ROWS)
        transform = transform_for(self.transform_name, y[:known], np.arange(known), self.previous)
        scalers = scalers_for(
            X[: self.n_train],
            y[: self.n_train],
            self.previous,
            is_scaled=self.likelihood.targets == "numbers",
            standard=standard_scaler,
            transform=transform,
        )
        slope = 0.0
        if transform is not None and self.n_train < n_rows:
            slope = float(transform.log_slope(y[self.n_train :]).sum(1).mean())
        for name, values, scaler in (("X", X, scalers.x_scaler), ("y", y, scalers.y_scaler)):
            with (folder / name).open("wb") as file:
                for start in range(0, n_rows, _ROWS):
                    block = values[start : start + _ROWS]
                    if name == "y" and transform is not None:
                        block = transform.forward(block)
                    file.write(scaler.transform(block, copy=True).astype(self.dtype).data)
        del X, y
        for path in raw.values():
            path.unlink()
        return {**_described(scalers), "log_slope": slope}

    def _blocks(self) -> Iterator[FloatArray]:
        """Inputs, targets and numbers of the rows, [n, D + P + 1], checked."""
        count = 0
        for part in parts_of(self.source):
            with part.explained():
                X, y = self._inputs(part), self._targets(part)
            count += len(part)
            if count > self.found.n_rows:
                break
            yield np.column_stack([X, y, np.arange(part.start, part.start + len(part))])
        if count != self.found.n_rows:
            gave = f"{'fewer' if count < self.found.n_rows else 'more'} ({count:,})"
            raise InputError(
                f"{self.source.name} gave {self.found.n_rows:,} rows when it was first read, and then {gave}:"
                " it ended early, or was changed meanwhile. A function has to return a fresh iterator at every call."
            )
        self.news.warn()

    def _inputs(self, part: Part) -> FloatArray:
        encoder = self.found.columns.encoder
        if encoder is None:
            values = inputs_of(part, self.found)
            _refuse_gaps(values, "X", self.found.columns.inputs)
            return values
        parts = encoder.encoded(part.X)
        self.news.add(encoder.used_, parts)
        return np.concatenate([each.values for each in parts], axis=1)

    def _targets(self, part: Part) -> FloatArray:
        columns = self.found.columns
        if columns.classes is not None:
            values = codes_of(part.labels(), columns.classes).astype(np.float64)[:, None]
        else:
            values = numbers_in(part.y) if is_frame(part.y) else plain_numbers(part.y, "y", columns.n_targets)
            _refuse_gaps(values, "y", columns.targets)
            if self.transform_name != "none":
                check_positive_targets(self.transform_name, values)
        return encoded(self.likelihood, values, None, self.found.n_classes).y

    def _warn_of_lost_signal(self, X: FloatArray, y: FloatArray) -> None:
        """As for arrays, by random rows."""
        columns = self.found.columns
        names = columns.inputs if columns.encoder is None else columns.encoder.get_feature_names_out()
        sample = np.array(X[:_LOOKED_AT])
        warn_of_lost_signal(sample, sample, names, "X")
        if columns.classes is None:
            targets = np.array(y[:_LOOKED_AT])
            warn_of_lost_signal(targets, targets, columns.targets, "y")


def _described(scalers: Scalers) -> dict[str, Any]:
    """Scalings as JSON, which keeps every bit."""
    described: dict[str, Any] = {"transform": encode_transform(scalers.transform)}
    described["x_range"] = None if scalers.x_range is None else scalers.x_range.tolist()
    for name in _SCALERS:
        scaler = getattr(scalers, name)
        parts = {part: getattr(scaler, part).tolist() for part in SCALING}
        described[name] = {"rows": int(np.max(scaler.n_samples_seen_)), **parts}
    return described


def scalers_of(about: Mapping[str, Any]) -> Scalers:
    """The scalings that were described."""
    made = []
    for name in _SCALERS:
        scaler = StandardScaler()
        for part in SCALING:
            setattr(scaler, part, np.array(about[name][part]))
        scaler.n_samples_seen_, scaler.n_features_in_ = np.int64(about[name]["rows"]), len(scaler.mean_)
        made.append(scaler)
    x, y, x_seen, y_seen = made
    x_range = None if about["x_range"] is None else np.array(about["x_range"])
    return Scalers(x, y, x_seen, y_seen, decode_transform(about["transform"], len(y.mean_)), x_range)


def _refuse_gaps(values: FloatArray, what: str, names: Any) -> None:
    """InputError that names column and row of a number that is missing or infinite."""
    good = np.isfinite(values)
    if not good.all():
        row, column = np.argwhere(~good)[0].tolist()
        name = f"column {column}" if names is None else f"column {str(names[column])!r}"
        raise InputError(
            f"{what} is missing or not finite in row {row}, {name}. Drop such rows, or fill them in"
            + ("; gaps in the inputs of a data frame are filled in with columns='auto'." if what == "X" else ".")
        )
