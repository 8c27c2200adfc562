"""The settings of a run, as a TOML file holds them."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..algorithms import SERVER_OPTS, Algorithm, ServerOpt, algorithm, settings
from ..data.official import NAMES as OFFICIAL
from ..engines.names import EngineName, require_engine
from ..engines.stacking import Compile, Precision
from ..errors import FedforError, nearest

BUNDLED = ("digits", "digit-domains")


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True
    )


class DataConfig(Section):
    """Which data: a set by `name`, or your own in an .npz `file`, which goes first."""

    name: str = "digits"
    """digits or digit-domains, which come with the package, or an official set: see
    `fedfor data list`."""
    file: Path | None = None
    """x_train, y_train, x_test, y_test, and for domains domain_train and domain_test."""
    per_domain: int | None = Field(default=None, ge=1)
    """Of an official set with domains: how many training samples of each; without it, as many as
    FedBN takes."""

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        known = (*BUNDLED, *OFFICIAL, "file")
        if value not in known:
            raise ValueError(f"there are no data of that name; {nearest(value, known)}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _file_names_itself(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("file") is not None:
            return {**value, "name": "file"}
        return value

    @field_validator("file")
    @classmethod
    def _from_anywhere(cls, value: Path | None) -> Path | None:
        """Absolute, so that a run can be resumed from another folder."""
        return None if value is None else value.expanduser().absolute()

    @model_validator(mode="after")
    def _one_of_both(self) -> "DataConfig":
        if (self.name == "file") != (self.file is not None):
            raise ValueError("name 'file' goes with data.file, the path of an .npz file")
        if self.per_domain is not None and self.name not in OFFICIAL:
            raise ValueError("per_domain is for official sets; see: fedfor data list")
        return self


class _PopulationConfig(Section):
    """What every kind of population has."""

    cohort: int = Field(default=10, ge=1)
    """Clients called in each round."""
    concept_shift: float | None = Field(default=None, ge=0, le=1)
    """The chance, at the start of each round, that one class gets another label."""


class LongTailConfig(_PopulationConfig):
    """The paper's prior shift: a long tail over the classes, another for each client."""

    kind: Literal["long-tail"] = "long-tail"
    clients: int = Field(default=10**10, ge=1)
    """How many there are. With so many, nobody is called twice."""
    share: float | None = Field(default=None, gt=0, le=1)
    """The part of each class that a client would have without the tail: 0.1, unless there is a
    `head`."""
    ratio: float = Field(default=0.01, gt=0, le=1)
    """Samples of a client's last class for each of its first."""
    head: int | None = Field(default=None, ge=1)
    """Samples of a client's first class, in place of `share`, whatever that says."""

    @model_validator(mode="before")
    @classmethod
    def _size(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value.get("head") is None:
            return {"share": 0.1, **value}
        return {**value, "share": None}


class DirichletConfig(_PopulationConfig):
    """Class shares from a Dirichlet distribution; the smaller alpha, the more unlike."""

    kind: Literal["dirichlet"]
    clients: int = Field(default=100, ge=1)
    """How many there are."""
    alpha: float = Field(default=0.3, gt=0)
    """The smaller, the fewer classes a client has."""
    samples_per_client: int | None = Field(default=None, ge=1)
    """Draw so many for each client, independently; without it, all data are dealt out once."""
    min_samples: int = Field(default=1, ge=1)
    """The fewest that a client may have when all data are dealt out; else they are dealt again."""


class ShardsConfig(_PopulationConfig):
    """Data sorted by label and dealt out in shards."""

    kind: Literal["shards"]
    clients: int = Field(default=100, ge=1)
    """How many there are."""
    shards_per_client: int = Field(default=2, ge=1)
    """About as many classes as a client has."""


class IidConfig(_PopulationConfig):
    """Clients alike: what the others are measured against."""

    kind: Literal["iid"]
    clients: int = Field(default=100, ge=1)
    """How many there are."""
    samples_per_client: int | None = Field(default=None, ge=1)
    """Draw so many for each client, independently; without it, all data are dealt out once."""


class DomainsConfig(_PopulationConfig):
    """The paper's covariate shift: one client for each domain of the data."""

    kind: Literal["domains"]
    cohort: int | None = Field(default=None, ge=1)  # type: ignore[assignment]
    """All domains unless told otherwise."""


PopulationConfig = Annotated[
    LongTailConfig | DirichletConfig | ShardsConfig | IidConfig | DomainsConfig,
    Field(discriminator="kind"),
]


class ModelConfig(Section):
    """What is trained."""

    name: str = "cnn"
    """linear, mlp, cnn, cnn-bn, resnet20, digits-net, alexnet-bn, or package.module:function of
    (shape, classes)."""


class TrainingConfig(Section):
    """What a client does in a round."""

    epochs: int = Field(default=1, ge=1)
    """Local epochs, E."""
    batch_size: int = Field(default=32, ge=1)
    """Samples in a batch."""
    lr: float = Field(default=0.01, gt=0, allow_inf_nan=False)
    """The local learning rate."""
    lr_decay: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The rate of round t is `lr * lr_decay**(t-1)`."""
    optimizer: str = "sgd"
    """A class of torch.optim by name; fresh each round."""
    options: dict[str, Any] = {}
    """Its further arguments, such as momentum."""
    augment: list[str] = []
    """Changes to training images, drawn anew each time: flip, crop=4 (pixels), rotate=30
    (degrees). What comes in at the edges is 0, the mean colour in CIFAR-10."""

    @field_validator("augment", mode="before")
    @classmethod
    def _one_word(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class EvaluationConfig(Section):
    """When the global model is tested, and what is reported of it."""

    every: int = Field(default=1, ge=1)
    """Evaluate each so many rounds, and after the last."""
    half: int | None = Field(default=None, ge=1)
    """The round that counts as half way; without it, rounds/2."""
    target: float | None = Field(default=None, gt=0, le=1)
    """The accuracy, as a fraction, whose first round is reported."""


class AvailabilityConfig(Section):
    """Who is there, who drops out and who is slow, and how the server copes. Without any of these
    settings, everyone is always there."""

    rate: float = Field(default=1.0, ge=0, le=1)
    """The chance that a client is there in a round."""
    dropout: float = Field(default=0.0, ge=0, le=1)
    """The chance that a client that was called drops out after training began."""
    slowness: float = Field(default=0.0, ge=0, le=10)
    """How unlike the clients' speeds are: sigma of a log-normal with median 1, drawn once for each
    client. 0: all alike."""
    over_sampling: float = Field(default=1.0, ge=1, le=100)
    """Clients called for each one of `population.cohort`; the first to report count."""
    deadline: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The time after which reports no longer count; a client of speed 1 with the mean amount of
    data takes 1. Without it, all are waited for."""
    least: int = Field(default=1, ge=1)
    """The fewest reports with which a round counts; with fewer, it is abandoned and the model
    stays."""
    trace: Path | None = None
    """A file of devices, JSON Lines, which goes before `rate`, `dropout` and `slowness`."""

    @field_validator("trace")
    @classmethod
    def _from_anywhere(cls, value: Path | None) -> Path | None:
        """Absolute, so that a run can be resumed from another folder."""
        return None if value is None else value.expanduser().absolute()


class RayConfig(Section):
    """How the engine ray shares work out. See docs/scale.md."""

    workers: int | None = Field(default=None, ge=1)
    """Processes that train; without it, one for each CPU of the cluster, or for each GPU where
    `device` is cuda. Results do not depend on it."""
    within: Literal["auto", "serial", "vector"] = "auto"
    """What a worker trains with: the engine serial or vector, or the one that suits the device."""
    block: int | None = Field(default=None, ge=1)
    """Clients that a worker's vector engine trains together; without it, by the size of the
    cohort. How the last bit is rounded depends on it."""


class RunConfig(Section):
    """All settings of a run."""

    seed: int = Field(default=0, ge=0)
    """Model, cohorts, client data and shifts follow from it."""
    rounds: int = Field(default=50, ge=1)
    """How often the server calls clients, trains and averages."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, ..., or auto."""
    threads: int = Field(default=1, ge=1)
    """Torch threads. One is fastest for small models; more can change the last bit of results."""
    engine: EngineName = "auto"
    """serial: one client after another. vector: all clients of a round together. auto: vector where
    it is faster and can train the model. ray: over all workers of a Ray cluster on this machine, or
    of one that is there: ray://HOST:PORT or HOST:PORT."""
    precision: Precision = "fp32"
    """What the vector engine multiplies in: fp32, tf32 or bf16. Weights stay in fp32."""
    compile: Compile = "auto"
    """Whether the vector engine compiles its steps on a GPU: auto, always or never. Auto does where
    the run is long enough to earn back the minute that it takes."""
    lanes: int | None = Field(default=None, ge=1)
    """The most clients that the vector engine trains at once; without it, as many as fit."""
    checkpoint_every: int = Field(default=1, ge=0)
    """Rounds between checkpoints. 0: none, and of the run only its records are kept; cut off, it
    starts again."""
    algorithm: dict[str, Any] = {"name": "fedfor"}
    """`name`, settings of its ClientOpt, and `server`, `sharing`, `weighting`."""
    data: DataConfig = DataConfig()
    population: PopulationConfig = LongTailConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    availability: AvailabilityConfig | None = None
    ray: RayConfig | None = None

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, value: str) -> str:
        try:
            require_engine(value)
        except FedforError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("algorithm", mode="before")
    @classmethod
    def _spelled_out(cls, value: Any) -> Any:
        """Every setting of the algorithm, so that a run's config says all even years later."""
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, dict) or not isinstance(value.get("name", ""), str):
            raise ValueError("it must be a name or a table with a name")
        value = {"name": "fedfor", **value}
        built = algorithm(**value)
        return {
            "name": value["name"],
            **settings(built.client),
            "server": _spelled_server(value.get("server", {}), built.server),
            "sharing": built.sharing,
            "weighting": built.weighting,
        }

    @field_validator("population", mode="before")
    @classmethod
    def _default_kind(cls, value: Any) -> Any:
        return {"kind": "long-tail", **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _half_within_rounds(self) -> "RunConfig":
        if self.evaluation.half is not None and self.evaluation.half > self.rounds:
            raise ValueError(f"evaluation.half cannot be after the last of {self.rounds} rounds")
        return self

    def build_algorithm(self) -> Algorithm:
        return algorithm(**self.algorithm)

    @property
    def half(self) -> int:
        return self.evaluation.half or max(1, self.rounds // 2)


def _spelled_server(given: Any, built: ServerOpt) -> dict[str, Any]:
    """All of a ServerOpt. One's own that is a part of the algorithm's name is named there."""
    name = given if isinstance(given, str) else given.get("name")
    if name is None and SERVER_OPTS.get(built.name) is type(built):
        name = built.name
    return {**({"name": name} if name else {}), **settings(built)}
