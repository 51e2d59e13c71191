"""What a fit leaves behind: one frozen value, and the public attributes of an estimator that look into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.preprocessing import StandardScaler
    from torch import Tensor

    from sodgp.inference.contract import Inference, Predictor, Subset
    from sodgp.inference.diagnostics import SamplerDiagnostics
    from sodgp.likelihoods.contract import LikelihoodOptions
    from sodgp.linalg.draws import Draws
    from sodgp.model.deep_gp import DeepGP
    from sodgp.predictive.calibration import Calibration, Temperature
    from sodgp.predictive.contract import Units
    from sodgp.predictive.power import PowerTransform
    from sodgp.system.validation import FloatArray
    from sodgp.tables.encoder import TableEncoder
    from sodgp.training.history import History

__all__ = ["Columns", "Fitted", "FittedAttributes"]

T = TypeVar("T")


@dataclass(frozen=True)
class Columns:
    """Columns of X and y.

    Attributes
    ----------
    n_inputs, n_targets : int
    y_is_vector : bool
        Whether y was [N] and not [N, 1].
    inputs, targets : ndarray of str, optional
        Names of the columns, where they have some.
    classes : ndarray of shape [K], optional
        Labels in ascending order, where y was one of K classes.
    class_rows : ndarray of shape [K], optional
        Rows of every class, or the sums of their weights.
    encoder : TableEncoder, optional
        Where X is a table: what turns it into the model's inputs.
    """

    n_inputs: int
    n_targets: int
    y_is_vector: bool
    inputs: NDArray[np.object_] | None = None
    targets: NDArray[np.object_] | None = None
    classes: NDArray[Any] | None = None
    class_rows: NDArray[np.int64] | NDArray[np.float64] | None = None
    encoder: TableEncoder | None = None


@dataclass(frozen=True)
class Fitted:
    """The fitted state of an estimator.

    Attributes
    ----------
    model : DeepGP
        In scaled units.
    method : Inference
        With everything decided that depended on the data.
    X_s, y_s : Tensor of shape [1, M, D] and [1, M, P], or [1, N, D] and [1, N, P]
        The rows that predictions are conditioned on, in scaled units: the subset, and where all labels are in q_hat
        the other rows behind it; empty where the method has none.
    weight_s : Tensor of shape [1, M, 1] or [1, N, 1], optional
        How many observations each of these rows stands for.
    x_scaler, y_scaler, x_seen, y_seen : StandardScaler
        Of the model's units, and of the rows of this fit: others after a warm start.
    predict_seed : int
        Of the random numbers of predictions.
    n_held_out, n_left_out : int
        Rows that training did not see: those of `validation_indices`, and those of weight zero.
    seed : int or None
        The integer random_state of a member.
    subset_indices, validation_indices : ndarray of shape [M] and [V], optional
    transform : PowerTransform, optional
        What y was turned into before it was scaled: `y_scaler` is then of the transformed y, `y_seen` of y itself.
    x_range : ndarray of shape [2, D], optional
        Smallest and largest value of every input in the rows of this fit; files of before it was kept have none.
    calibration : Calibration or Temperature, optional
        How predictions of all members together are corrected.
    members : tuple of Fitted
        All models whose mixture predicts, if more than one; the other attributes are those of the first.
    """

    model: DeepGP
    method: Inference
    likelihood: LikelihoodOptions
    columns: Columns
    X_s: Tensor
    y_s: Tensor
    x_scaler: StandardScaler
    y_scaler: StandardScaler
    x_seen: StandardScaler
    y_seen: StandardScaler
    predict_seed: int
    history: History
    seed: int | None = None
    weight_s: Tensor | None = None
    subset_indices: NDArray[np.int64] | None = None
    validation_indices: NDArray[np.int64] | None = None
    n_held_out: int = 0
    n_left_out: int = 0
    diagnostics: SamplerDiagnostics | None = None
    restart_bounds: list[float] | None = None
    subset_size_reason: str | None = None
    n_layers_reason: str | None = None
    transform: PowerTransform | None = None
    x_range: FloatArray | None = None
    calibration: Calibration | Temperature | None = None
    members: tuple[Fitted, ...] = ()

    @property
    def models(self) -> tuple[Fitted, ...]:
        """The members, or the one model that it is."""
        return self.members or (self,)

    @property
    def maps_back(self) -> bool:
        """Whether moments of y have to be taken of its distribution, since it is a function of the model's."""
        return self.transform is not None or self.calibration is not None

    @property
    def n_rows(self) -> int:
        """Rows that the model was trained on."""
        return int(np.max(self.x_scaler.n_samples_seen_))

    @property
    def subset_size(self) -> int:
        """Rows of the subset, or inducing points of a layer."""
        return int(self.model.layers[0].q_mean.shape[-2])

    @property
    def n_parameters(self) -> int:
        """Trained numbers of all models."""
        return sum(each.model.n_parameters for each in self.models)

    @property
    def units(self) -> Units:
        """Original units of predictions."""
        from sodgp.predictive.contract import Units  # with PyTorch

        columns = self.columns
        return Units(self.y_scaler.scale_, self.y_scaler.mean_, columns.y_is_vector, columns.classes)

    @property
    def subset(self) -> Subset:
        """Inputs and labels of the subset; without rows where the method has none."""
        from sodgp.inference.contract import Subset  # with PyTorch

        parts = (self.X_s, self.y_s, self.weight_s)
        return Subset(*(None if t is None else t[0, : self.subset_size] for t in parts))  # type: ignore[arg-type]

    def given_on_device(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Inputs, labels and weights of the rows that predictions are conditioned on, where the model is."""
        device = self.model.device
        weight = None if self.weight_s is None else self.weight_s.to(device)
        return self.X_s.to(device), self.y_s.to(device), weight

    def predictor(self, draws: Draws) -> Predictor:
        """Predictions of f, given these rows."""
        X_s, y_s, weight = self.given_on_device()
        return self.method.predictor(self.model, X_s, y_s, draws, weight)

    def outlier_probability(self, given: float | None) -> float:
        """That an observation is unlike those that were seen, where a user gives this option."""
        if self.transform is not None:
            # The mean of y over an outlier with ten times the standard deviation of log(y) would hide all others.
            return 0.0
        if given is not None:
            return given
        sharpens = self.method.objective in ("predictive", "leave_one_out")
        return 1.0 / (1.0 + self.n_rows) if sharpens else 0.0


class FittedAttributes:
    """Attributes of a fitted estimator. Before `fit` there are none of them."""

    fitted_: Fitted

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    @property
    def model_(self) -> DeepGP:
        """The trained model, in scaled units."""
        return self.fitted_.model

    @property
    def inference_(self) -> Inference:
        """The method, with everything decided that depended on the data."""
        return self.fitted_.method

    @property
    def likelihood_(self) -> LikelihoodOptions:
        """The likelihood that was used."""
        return self.fitted_.likelihood

    @property
    def objective_(self) -> str:
        """What was maximised: an objective of the method, such as ``"bound"``, or ``"posterior"`` of a sampler."""
        return cast(str, self.fitted_.method.objective)

    @property
    def target_transform_(self) -> PowerTransform | None:
        """What y was turned into before training, with its powers; None for y as it is."""
        return self.fitted_.transform

    @property
    def calibration_(self) -> Calibration | Temperature:
        """What `calibrate` has found, where it was called since the last fit."""
        return cast("Calibration | Temperature", _there(self.fitted_.calibration, "calibration_"))

    @property
    def history_(self) -> History:
        """The course of training."""
        return self.fitted_.history

    @property
    def n_iter_(self) -> int:
        """Steps of training."""
        iterations = self.fitted_.history.iteration
        return iterations[-1] if iterations else 0

    @property
    def n_parameters_(self) -> int:
        """Numbers that were trained, those of all members included."""
        return self.fitted_.n_parameters

    @property
    def n_members_(self) -> int:
        """Models that predict as one."""
        return len(self.fitted_.models)

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        return self.fitted_.columns.n_inputs

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns of X, where they have some."""
        return _there(self.fitted_.columns.inputs, "feature_names_in_")

    @property
    def columns_(self) -> dict[str, str]:
        """What became of every column of X."""
        columns = self.fitted_.columns
        if columns.encoder is not None:
            return columns.encoder.columns_
        names = [f"x{i}" for i in range(columns.n_inputs)] if columns.inputs is None else map(str, columns.inputs)
        return dict.fromkeys(names, "number, as it is")

    @property
    def target_names_(self) -> NDArray[np.object_]:
        """Names of the columns of y, where they have some."""
        return _there(self.fitted_.columns.targets, "target_names_")

    @property
    def subset_size_(self) -> int:
        """Rows of the subset, or inducing points of a layer."""
        return self.fitted_.subset_size

    @property
    def n_layers_(self) -> int:
        """GP layers, the last one included."""
        return len(self.fitted_.model.layers)

    @property
    def n_layers_reason_(self) -> str:
        """Where short fits have decided the number of layers: what they said."""
        return _there(self.fitted_.n_layers_reason, "n_layers_reason_")

    @property
    def subset_size_reason_(self) -> str:
        """With ``subset_size="auto"``: what was chosen, and why."""
        return _there(self.fitted_.subset_size_reason, "subset_size_reason_")

    @property
    def subset_indices_(self) -> NDArray[np.int64]:
        """Rows of the training data that form the subset."""
        return _there(self.fitted_.subset_indices, "subset_indices_")

    @property
    def validation_indices_(self) -> NDArray[np.int64]:
        """Rows that were held out."""
        return _there(self.fitted_.validation_indices, "validation_indices_")

    @property
    def diagnostics_(self) -> SamplerDiagnostics:
        """Of a sampler."""
        return _there(self.fitted_.diagnostics, "diagnostics_")

    @property
    def restart_bounds_(self) -> list[float]:
        """Bound of every restart."""
        return _there(self.fitted_.restart_bounds, "restart_bounds_")


def _there(value: T | None, name: str) -> T:
    """The value, or an AttributeError as for any attribute that a fit did not set."""
    if value is None:
        raise AttributeError(f"this fit has no {name}")
    return value
