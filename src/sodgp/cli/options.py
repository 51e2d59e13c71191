"""The options of `sodgp.DeepGPRegressor` as flags and as keys of a config file: one table for both.

Flags are flat: those of a method, a likelihood, the tuning or the checkpoint say in `Option.place` to which object they
belong. A new option gets a line in `OPTIONS`, or, where a command line cannot give it, in `NO_FLAG` with the reason; a
test compares both with the estimator.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from sodgp.errors import ConfigurationError

INFERENCES: Final = ("sod", "dsvi", "sghmc", "mean_field")
LIKELIHOODS: Final = (
    *("gaussian", "heteroscedastic", "heavy_tailed", "student_t"),
    *("poisson", "negative_binomial"),
    *("bernoulli", "softmax", "dirichlet"),
)
TASKS: Final = ("regression", "classification", "counts")
KERNELS: Final = tuple(base + end for end in ("", "-iso") for base in ("rbf", "matern12", "matern32", "matern52", "rq"))
SUBSETS: Final = ("kmeans", "random", "greedy_variance", "rp_cholesky", "leverage", "dpp")

NO_FLAG: Final[Mapping[str, str]] = {
    "initialization": "a table of a config file: [initialization]",
    "callbacks": "Python functions",
    "columns": "--columns, --keep and --missing of the command itself",
    "warm_start": "for a fitted estimator in Python; a command begins afresh",
    "verbose": "--verbose and --quiet of the command itself",
    "tuning": "its parts have flags",
    "friction": "for Python: SGHMC(friction=...)",
    "window": "for Python: SGHMC(window=...)",
    "latent_variance": "for Python: MeanField(latent_variance=...)",
    "max_rows": "for Python: MeanField(max_rows=...)",
    "max_latents": "for Python: MeanField(max_latents=...)",
    "link": "for Python: Bernoulli(link=...)",
    "quadrature_order": "for Python: Bernoulli(quadrature_order=...)",
    "n_pairs": "for Python: Softmax(n_pairs=...)",
    "alpha": "for Python: Dirichlet(alpha=...)",
    "dispersion": "for Python: NegativeBinomial(dispersion=...)",
    "df": "for Python: StudentT(df=...)",
}


@dataclass(frozen=True)
class Kind:
    """A kind of value, as text of a flag and as a value of a config file.

    `words` and `metavar` say what it is in messages and in help texts. `read` makes it from text, or raises ValueError;
    `accepts` says whether a value of a config file is one.
    """

    words: str
    metavar: str
    read: Callable[[str], int | float | str | list[int]]
    accepts: Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_integer(value) or isinstance(value, float)


def _widths(text: str) -> int | list[int]:
    return [int(part) for part in text.split(",")] if "," in text else int(text)


def _or_word(read: Callable[[str], int | float], *words: str) -> Callable[[str], int | float | str]:
    return lambda text: text if text in words else read(text)


INTEGER = Kind("an integer", "INTEGER", int, _is_integer)
NUMBER = Kind("a number", "NUMBER", float, _is_number)
TEXT = Kind("text", "TEXT", str, lambda value: isinstance(value, str))
FLAG = Kind("true or false", "", lambda text: text == "true", lambda value: isinstance(value, bool))
WIDTHS = Kind(
    "an integer, or a list of one for each hidden layer",
    "N|N,N,...",
    _widths,
    lambda value: _is_integer(value) or (isinstance(value, list) and all(map(_is_integer, value))),
)
SIZE = Kind(
    "an integer, 'auto' or 'paper'",
    "N|auto|paper",
    _or_word(int, "auto", "paper"),
    lambda value: _is_integer(value) or value in ("auto", "paper"),
)
JITTER = Kind(
    "a number or 'program'",
    "NUMBER|program",
    _or_word(float, "program"),
    lambda value: _is_number(value) or value == "program",
)
EVERY = Kind(
    "a number of steps or a time such as '10min'",
    "STEPS|TIME",
    lambda text: int(text) if text.strip().isdigit() else text,
    lambda value: _is_integer(value) or isinstance(value, str),
)
# TOML has no null: the word stands for Python's None.
THREADS = Kind(
    "an integer, 'auto' or 'none'",
    "N|auto|none",
    _or_word(int, "auto", "none"),
    lambda value: _is_integer(value) or value in ("auto", "none"),
)


@dataclass(frozen=True)
class Option:
    """How an argument of the estimator is given.

    `help` ends without a stop, as the default is added. `short` is a second name of the flag, `choices` are for
    completion in the shell, `panel` is the heading in the help text, and `place` the argument of the estimator whose
    object has this option as a field; empty for an argument itself.
    """

    kind: Kind
    help: str
    default: str
    short: str = ""
    choices: tuple[str, ...] = ()
    panel: str = "Model"
    place: str = ""


_TRAINING, _SAMPLING, _MACHINE, _SWITCHES = "Training", "Sampling (SGHMC)", "Machine", "Switches"
_METHOD, _TUNING = "inference", "tuning"

OPTIONS: Final[dict[str, Option]] = {
    "inference": Option(TEXT, "Method: sod, dsvi, sghmc or mean_field", "sod", choices=INFERENCES),
    "n_layers": Option(
        INTEGER, "GP layers, the last one included; 1 is a sparse GP", "as the data want, up to 3", short="layers"
    ),
    "hidden_width": Option(WIDTHS, "Outputs of the hidden layers, or one number for each", "min(30, inputs)"),
    "kernel": Option(
        TEXT,
        "rbf, matern12, matern32, matern52 or rq; with -iso one lengthscale for all inputs",
        "rbf",
        choices=KERNELS,
    ),
    "subset_size": Option(
        SIZE, "Rows M of the subset (inducing points); auto grows it as the data need", "100, or by --effort"
    ),
    "subset": Option(TEXT, f"How its rows are chosen: {', '.join(SUBSETS)}", "kmeans", choices=SUBSETS),
    "parameterization": Option(
        TEXT, "Family of q(F_S): whitened or paper (sod)", "whitened", choices=("whitened", "paper"), place=_METHOD
    ),
    "coupling": Option(
        TEXT,
        "How subset and other rows are drawn: ancestral, marginal or joint (sod)",
        "ancestral",
        choices=("ancestral", "marginal", "joint"),
        place=_METHOD,
    ),
    "hidden_mean": Option(TEXT, "Mean of hidden layers: linear or zero", "linear", choices=("linear", "zero")),
    "tie_label_noise": Option(
        FLAG, "Label noise of q equal to the likelihood's (sod)", "tied", panel=_SWITCHES, place=_METHOD
    ),
    "separate_kernels": Option(
        FLAG,
        "A kernel for each output of the first layer (sod)",
        "on; for other noise with 500 rows",
        panel=_SWITCHES,
        place=_METHOD,
    ),
    "natural_gradients": Option(
        FLAG,
        "Natural-gradient steps for the last layer's q (sod)",
        "on for classes, counts and student_t",
        panel=_SWITCHES,
        place=_METHOD,
    ),
    "learn_inducing_inputs": Option(
        FLAG, "Train inducing inputs (dsvi, sghmc)", "trained", panel=_SWITCHES, place=_METHOD
    ),
    "likelihood": Option(
        TEXT,
        "gaussian; heteroscedastic, noise that depends on the inputs, or heavy_tailed (both: sod); student_t; poisson"
        " or negative_binomial (default) for counts; bernoulli (default for two), softmax (for more) or dirichlet (sod)"
        " for classes",
        "gaussian",
        choices=LIKELIHOODS,
    ),
    "target_transform": Option(
        TEXT,
        "none, log or box_cox: what positive targets become in training; predictions are of the target itself",
        "none",
        choices=("none", "log", "box_cox"),
    ),
    "jitter": Option(
        JITTER, "Added to covariance diagonals, relative to their mean", "1e-6, float32: 1e-4", place=_TUNING
    ),
    "effort": Option(
        TEXT,
        "quick, standard or thorough: rows of the subset, steps, rows in a step and members, where not given",
        "standard",
        choices=("quick", "standard", "thorough"),
    ),
    "max_iter": Option(
        INTEGER,
        "Steps of training",
        "155 for sod with up to 2,000 rows (up to 620 below 160), 200 for other labels, else 1400, or by --effort",
        panel=_TRAINING,
    ),
    "batch_size": Option(
        INTEGER,
        "Rows that a step sees, the subset counted in",
        "all for sod with up to 2,000 rows, else 300, or by --effort and rows",
        panel=_TRAINING,
    ),
    "learning_rate": Option(
        NUMBER,
        "Of Adam",
        "0.1 for sod with up to 2,000 rows (one layer 0.2), classes or counts, else 0.03",
        panel=_TRAINING,
    ),
    "schedule": Option(
        TEXT,
        "Learning rate: cosine or constant",
        "cosine",
        choices=("cosine", "constant"),
        panel=_TRAINING,
        place=_TUNING,
    ),
    "objective": Option(
        TEXT,
        "What training maximises: the bound, or the predictive density of the rest (sod, dsvi); with the labels of all"
        " rows in q_hat, collapsed or leave_one_out (sod)",
        "for sod leave_one_out, above 2,000 rows predictive; with one layer or below 500 rows collapsed and bound;"
        " other noise predictive or bound; classes and counts bound",
        choices=("bound", "predictive", "collapsed", "leave_one_out"),
        panel=_TRAINING,
        place=_METHOD,
    ),
    "n_samples": Option(INTEGER, "Monte Carlo samples of a training step", "10", panel=_TRAINING),
    "n_predict_samples": Option(INTEGER, "Monte Carlo samples of a prediction", "50", panel=_TRAINING),
    "outlier_probability": Option(
        NUMBER,
        "That a row is unlike those seen in training; its distribution is then ten times as wide",
        "1 / (rows + 1) where the objective is predictive or leave_one_out, else 0",
        panel=_TRAINING,
        place="likelihood",
    ),
    "n_members": Option(
        INTEGER, "Models from different seeds that predict as one mixture", "1, or by --effort", panel=_TRAINING
    ),
    "member_spread": Option(
        NUMBER,
        "Factor of the members' spreads in their mixture; 1 is the plain one (sod)",
        "0.85 for 4 members",
        panel=_TRAINING,
        place=_METHOD,
    ),
    "n_restarts": Option(INTEGER, "Fits from different seeds; the best is kept", "1", panel=_TRAINING),
    "validation_fraction": Option(
        NUMBER, "Share of the rows held out and scored during training; see --patience", "none", panel=_TRAINING
    ),
    "max_minutes": Option(NUMBER, "Time after which training ends", "none", panel=_TRAINING),
    "checkpoint": Option(TEXT, "Folder to which training is written at intervals", "none", panel=_TRAINING),
    "checkpoint_every": Option(
        EVERY, "How often: steps, or 90s, 10min, 2h", "10min", panel=_TRAINING, place="checkpoint"
    ),
    "random_state": Option(INTEGER, "Fixes every random number", "0", short="seed", panel=_TRAINING),
    "n_posterior_samples": Option(
        INTEGER, "Posterior draws kept over all chains", "100", panel=_SAMPLING, place=_METHOD
    ),
    "thinning": Option(INTEGER, "Transitions between two draws", "50", panel=_SAMPLING, place=_METHOD),
    "step_size": Option(NUMBER, "Of the sampler", "0.01", panel=_SAMPLING, place=_METHOD),
    "n_chains": Option(INTEGER, "Independent chains", "1", panel=_SAMPLING, place=_METHOD),
    "dtype": Option(TEXT, "float64 or float32", "float64", choices=("float64", "float32"), panel=_MACHINE),
    "device": Option(TEXT, "auto, cpu or cuda", "auto", choices=("auto", "cpu", "cuda"), panel=_MACHINE),
    "n_jobs": Option(
        INTEGER, "Processes for members and restarts; -1: one for each core", "1", short="jobs", panel=_MACHINE
    ),
    "n_threads": Option(
        THREADS, "CPU threads; auto: idle cores; none: PyTorch's setting", "1", short="threads", panel=_MACHINE
    ),
    "compile": Option(
        FLAG, "Fuse operations with PyTorch's compiler; pays in long runs", "off", panel=_SWITCHES, place=_TUNING
    ),
}


def estimator_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for every entry of `OPTIONS`; it gets those that were used in its argument `options`."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in OPTIONS}
        command(options={name: _value(name, text) for name, text in given.items() if text is not None}, **arguments)

    kept = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name, option))
        for name, option in OPTIONS.items()
    ]
    run.__signature__ = inspect.Signature([*kept, *flags])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*kept, *flags)} | {"return": None}
    return run


def as_arguments(options: Mapping[str, Any], likelihood: str | None = "gaussian") -> dict[str, Any]:
    """Options as the estimator takes them: those of a method, a likelihood, ... put into its object.

    `likelihood` is the estimator's own default.

    Raises
    ------
    ConfigurationError
        For an option of another method than the chosen one.
    """
    from sodgp.estimator.options.fields import OBJECTS

    inside: dict[str, dict[str, Any]] = {}
    arguments: dict[str, Any] = {}
    for name, value in options.items():
        place = "tuning" if name == "initialization" else OPTIONS[name].place
        if place:
            inside.setdefault(place, {})[name] = value
        else:
            # TOML and flags have no None.
            arguments[name] = None if name == "n_threads" and value == "none" else value
    starts = {"inference": "sod", "likelihood": likelihood, "tuning": None, "checkpoint": None, **arguments}
    for place, fields in inside.items():
        before = OBJECTS[place](starts[place])
        if before is None and place == "likelihood":
            raise ConfigurationError(f"{next(iter(fields))} is no option of the likelihoods of classes; leave it out.")
        if before is None:
            raise ConfigurationError("checkpoint_every says how often; say where, too, with --checkpoint.")
        changes = {"every" if name == "checkpoint_every" else name: value for name, value in fields.items()}
        foreign = sorted(set(changes) - set(before.get_params()))
        if foreign:
            name = foreign[0]
            raise ConfigurationError(f"{name} is no option of {place}={starts[place]!r}{_owners(name)}; leave it out.")
        arguments[place] = before.set_params(**changes)
    return arguments


def _owners(option: str) -> str:
    """The methods that have an option, for a message."""
    from sodgp.estimator.options.fields import METHODS

    owners = [name for name, method in METHODS.items() if option in method().get_params()]
    return f", but of {', '.join(map(repr, owners))}" if owners else ""


def _annotation(name: str, option: Option) -> Any:
    dashed = name.replace("_", "-")
    help = f"{option.help}. [dim]\\[default: {option.default}][/]"
    shared: dict[str, Any] = {"help": help, "rich_help_panel": option.panel, "show_default": False}
    if option.kind is FLAG:
        return Annotated[bool | None, typer.Option(f"--{dashed}/--no-{dashed}", **shared)]
    names = [f"--{dashed}", *([f"--{option.short}"] if option.short else [])]
    if option.choices:
        shared["autocompletion"] = lambda incomplete: [c for c in option.choices if c.startswith(incomplete)]
    return Annotated[str | None, typer.Option(*names, metavar=option.kind.metavar, **shared)]


def _value(name: str, given: str | bool) -> int | float | str | list[int]:
    """The value of a flag: here and not in Click, whose messages are about types instead of what is meant."""
    if isinstance(given, bool):
        return given
    kind = OPTIONS[name].kind
    try:
        return kind.read(given)
    except ValueError as error:
        raise ConfigurationError(f"{name} must be {kind.words}, not {given!r}.") from error
