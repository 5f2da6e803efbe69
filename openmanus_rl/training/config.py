"""The configuration of a run that is trained here, read from its row; whatever is wrong is named by its field."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from openmanus_rl.errors import InvalidInput

__all__ = ["EntryPoint", "GitSource", "ProgramConfig", "TrainerConfig", "parse_config"]

_SCHEMES = ("https://", "http://", "ssh://", "file://")
_MOST_ENVIRONMENTS = 1024


def _whole(value: Any) -> Any:
    """Take 1e5 for 100000: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _inside(path: str) -> str:
    """Refuse a path that leaves its folder."""
    parts = PurePosixPath(path)
    if not path or parts.is_absolute() or ".." in parts.parts or path.startswith("-") or "\0" in path:
        raise ValueError("must be a path inside the folder of the code")
    return path


def _git_url(url: str) -> str:
    is_scp = "@" in url and ":" in url and "://" not in url and not url.startswith("-")
    if not (url.startswith(_SCHEMES) or is_scp) or any(character.isspace() for character in url):
        raise ValueError("must be an http(s), ssh or file URL of a git repository")
    return url


def _git_ref(ref: str) -> str:
    if not ref or ref.startswith("-") or any(character.isspace() or character in ":~^?*[\\" for character in ref):
        raise ValueError("must be a branch, tag or commit")
    return ref


def _requirement(text: str) -> str:
    # An option of pip could name other indexes or files.
    if text.lstrip().startswith("-") or not text.strip():
        raise ValueError("must be a requirement, such as `trl>=1.0`")
    return text


Whole = Annotated[int, BeforeValidator(_whole), Strict()]
_Path = Annotated[str, AfterValidator(_inside)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EvaluationConfig(_Part):
    """When and how long the policy is evaluated; also once at the end."""

    interval_timesteps: Annotated[Whole, Field(ge=0)] | None = None
    """Timesteps between evaluations; None: a tenth of the run, 0: only at the end."""
    episodes: Annotated[Whole, Field(ge=1)] = 10


class TrainerConfig(_Part):
    """What Stable-Baselines3 trains, and for how long."""

    total_timesteps: Annotated[Whole, Field(gt=0)]
    n_envs: Annotated[Whole, Field(ge=1, le=_MOST_ENVIRONMENTS)] = 1
    seed: Annotated[Whole, Field(ge=0, lt=2**31)] | None = None
    policy: str | None = None
    """Such as MlpPolicy; None: the one that fits the observations."""
    hyperparameters: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the algorithm, by their names in Stable-Baselines3."""
    normalize: Annotated[bool, Strict()] = False
    """Whether observations and rewards are normalized by VecNormalize."""
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint_interval_timesteps: Annotated[Whole, Field(ge=0)] | None = None
    """None: a tenth of the run, 0: only at the end."""
    device: str = "auto"

    @property
    def evaluation_interval(self) -> int:
        """The timesteps between evaluations; 0: only at the end."""
        return self._interval(self.evaluation.interval_timesteps)

    @property
    def checkpoint_interval(self) -> int:
        """The timesteps between checkpoints; 0: only at the end."""
        return self._interval(self.checkpoint_interval_timesteps)

    def _interval(self, given: int | None) -> int:
        return max(1, self.total_timesteps // 10) if given is None else given


class GitSource(_Part):
    """A repository with a program."""

    url: Annotated[str, AfterValidator(_git_url)]
    ref: Annotated[str, AfterValidator(_git_ref)] = "HEAD"


class EntryPoint(_Part):
    """A function that can be imported, or a script in a repository or an archive."""

    module: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    script: _Path | None = None
    git: GitSource | None = None
    archive: _Path | None = None
    """The path of a tar.gz in the bucket task-files."""

    @model_validator(mode="after")
    def _check(self) -> EntryPoint:
        if (self.module is None) == (self.script is None):
            raise ValueError("needs either a module or a script")
        if self.git is not None and self.archive is not None:
            raise ValueError("takes git or an archive, not both")
        if self.script is not None and self.git is None and self.archive is None:
            raise ValueError("a script needs git or an archive that holds it")
        return self


class ProgramConfig(BaseModel):
    """A program that trains; further keys are its own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    entry_point: EntryPoint
    arguments: list[str] = Field(default_factory=list)
    requirements: list[Annotated[str, AfterValidator(_requirement)]] = Field(default_factory=list)
    """What pip installs for the run."""


def parse_config(config: Mapping[str, Any]) -> TrainerConfig | ProgramConfig:
    """Return the configuration; raise an `InvalidInput` that names every field that is wrong."""
    kind: type[TrainerConfig | ProgramConfig] = ProgramConfig if "entry_point" in config else TrainerConfig
    try:
        return kind.model_validate(dict(config))
    except ValidationError as error:
        problems = [_describe(kind, one) for one in error.errors()]
        raise InvalidInput("; ".join(text for _, text in problems), field=problems[0][0]) from None


def _describe(kind: type[BaseModel], problem: ErrorDetails) -> tuple[str, str]:
    place = [str(part) for part in problem["loc"]]
    field = ".".join(["config", *place])
    if problem["type"] == "missing":
        return field, f"{field} is missing"
    if problem["type"] == "extra_forbidden":
        names = list(_fields_at(kind, place[:-1]))
        near = get_close_matches(place[-1], names, n=1)
        guess = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
        return field, f"{field} is unknown; {guess}"
    message = problem["msg"].removeprefix("Value error, ")
    given = "" if isinstance(problem["input"], (dict, BaseModel)) else f" is {problem['input']!r:.80}"
    return field, f"{field}{given}: {message[:1].lower()}{message[1:]}"


def _fields_at(kind: type[BaseModel], place: list[str]) -> Mapping[str, Any]:
    """Return the fields of the model at a place in the configuration."""
    for name in place:
        found = kind.model_fields[name].annotation
        kind = next(one for one in (found, *get_args(found)) if isinstance(one, type) and issubclass(one, BaseModel))
    return kind.model_fields
