"""The specs of validators, one model for each kind; an error names the field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from openmanus_rl.errors import InvalidInput

__all__ = [
    "KINDS",
    "ExactSpec",
    "JsonSpec",
    "NumericSpec",
    "PythonSpec",
    "RegexSpec",
    "ScriptSpec",
    "Spec",
    "SqlSpec",
    "Tolerance",
    "check_spec",
    "needs_sandbox",
]

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=500)]


class Spec(BaseModel):
    """What all specs have in common: unknown fields are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    needs_sandbox: ClassVar[bool] = False

    def has(self, field: str) -> bool:
        """Return whether a field was given, if only as null."""
        return field in self.model_fields_set


class Tolerance(Spec):
    """How far numbers may differ: by `absolute`, or by `relative` times the larger one."""

    absolute: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    # Below 1, so that a number is never close to one of the other sign.
    relative: float = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)


class _WithTolerance(Spec):
    tolerance: Tolerance = Tolerance()
    """A number is the absolute tolerance."""

    @field_validator("tolerance", mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return {"absolute": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


class _Structure(_WithTolerance):
    unordered: bool = False
    ignore_case: bool = False
    ignore_whitespace: bool = False
    extra_keys: bool = False


class JsonSpec(_Structure):
    """`json`: the answer has the structure of `expected`, or else of the task's expected answer."""

    expected: Any = None


class ExactSpec(Spec):
    """`exact`: the answer is a text."""

    expected: str | None = None
    trim: bool = True
    ignore_case: bool = False
    ignore_whitespace: bool = False


class RegexSpec(Spec):
    """`regex`: the answer's text matches a regular expression of Python's."""

    pattern: str = Field(min_length=1, max_length=10_000)
    full: bool = False
    """Whether all of the text must match, and not only a part."""
    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    timeout_seconds: Seconds = 5.0

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"it is not a regular expression: {error}") from None
        return pattern

    @property
    def flags(self) -> int:
        """Return the flags of `re`."""
        chosen = {re.IGNORECASE: self.ignore_case, re.MULTILINE: self.multiline, re.DOTALL: self.dot_all}
        return int(sum(flag for flag, is_set in chosen.items() if is_set))


class NumericSpec(_WithTolerance):
    """`numeric`: the answer is a number."""

    expected: Finite | None = None
    units: tuple[Name, ...] = Field(default=(), strict=False)
    """What may stand before or after the number."""
    thousands_separator: Literal[",", ".", " ", "'", "_"] | None = None
    decimal_separator: Literal[".", ","] = "."

    @model_validator(mode="after")
    def _differ(self) -> NumericSpec:
        if self.thousands_separator == self.decimal_separator:
            raise ValueError("thousands_separator and decimal_separator are the same")
        return self


class SqlSpec(_Structure):
    """`sql`: a query on the environment's database returns the expected rows."""

    needs_sandbox: ClassVar[bool] = True
    query: str = Field(min_length=1, max_length=100_000)
    expected: list[list[Any] | dict[str, Any]] = Field(max_length=10_000)
    """Rows, all as lists or all as objects by column."""
    service: Name | None = None
    timeout_seconds: Seconds = 30.0

    @field_validator("expected")
    @classmethod
    def _of_one_form(cls, rows: list[list[Any] | dict[str, Any]]) -> list[list[Any] | dict[str, Any]]:
        if len({type(row) for row in rows}) > 1:
            raise ValueError("rows must be all lists or all objects")
        return rows


class ScriptSpec(Spec):
    """`script`: a script of the task's files runs in the sandbox and writes a reward, as in Harbor."""

    needs_sandbox: ClassVar[bool] = True
    service: Name | None = None
    timeout_seconds: Seconds = 600.0
    environment: dict[str, str] = Field(default_factory=dict)
    pass_at: Finite = 1.0
    reward: Name | None = None
    """The number of reward.json that counts."""
    tests_folder: str = Field(default="/tests", pattern=r"^/\S*[^/\s]$")
    logs_folder: str = Field(default="/logs/verifier", pattern=r"^/\S*[^/\s]$")


class PythonSpec(Spec):
    """`python`: a function, `module:function`, is called with answer, expected answer and context."""

    function: str = Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*$", max_length=500)
    options: dict[str, Any] = Field(default_factory=dict)
    pass_at: Finite = 1.0
    uses_sandbox: bool = False
    timeout_seconds: Seconds = 600.0


KINDS: Mapping[str, type[Spec]] = {
    "json": JsonSpec,
    "exact": ExactSpec,
    "regex": RegexSpec,
    "numeric": NumericSpec,
    "sql": SqlSpec,
    "script": ScriptSpec,
    "python": PythonSpec,
}


def check_spec(kind: Any, spec: Any) -> Spec:
    """Return a validator's spec as its model, or raise `InvalidInput`, whose `field` is `kind` or one of the spec."""
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise InvalidInput(f"kind must be one of {', '.join(KINDS)}", field="kind")
    if not isinstance(spec, Mapping):
        raise InvalidInput("spec must be an object", field="spec")
    try:
        return model.model_validate(dict(spec))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(("spec", *(str(part) for part in _names(first["loc"]))))
        raise InvalidInput(f"{field}: {first['msg'].removeprefix('Value error, ')}", field=field) from None
    except RecursionError:
        raise InvalidInput("spec is nested too deeply", field="spec") from None


def needs_sandbox(kind: str, spec: Mapping[str, Any]) -> bool:
    """Return whether a validator can only be run while its rollout's environment is there."""
    model = KINDS.get(kind)
    says_so = isinstance(spec, Mapping) and kind == "python" and spec.get("uses_sandbox") is True
    return says_so or (model is not None and model.needs_sandbox)


def _names(location: tuple[int | str, ...]) -> list[int | str]:
    # Pydantic puts the member of a union into the path, such as list[any]: no field that a user wrote.
    return [part for part in location if isinstance(part, int) or "[" not in part]
