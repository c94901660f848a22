"""Request and response models of ``/alerts``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from perftrend.analysis import StepMethod
from perftrend.analysis.alerts import Detector
from perftrend.analysis.query import parse
from perftrend.clients.mail import address
from perftrend.clients.webhook import check_url
from perftrend.dashboard.formats import plain
from perftrend.dashboard.triage.models import Number
from perftrend.dashboard.triage.notifications import mail_addresses
from perftrend.errors import PerftrendError
from perftrend.store.alerts import Alert, Override, Rules


def _line(text: str) -> str:
    """Return a text on one line, so that no part of it looks like a separate line of a message."""
    return " ".join(plain(text).split())


Line = Annotated[str, AfterValidator(_line)]
StepName = Literal["original", "corrected", "absolute", "percent", "cohen", "mann-whitney", "constant"]


def _day(value: datetime) -> datetime:
    """Return a date, or raise ValueError if its year is not in ``_YEARS``."""
    if value.year not in _YEARS:
        raise ValueError(f"enter a date from the year {_YEARS.start} on")
    return value


_YEARS = range(2000, 3000)
_TARGETS = {
    "mail": "enter addresses, such as team@example.org",
    "gerrit": "enter the name of the project in Gerrit",
    "webhook": "enter its URL, such as https://example.org/hook",
}
Day = Annotated[datetime, AfterValidator(_day)]


def _none(value: object) -> object:
    """Return None for an empty field of a form, and other values unchanged."""
    return None if value == "" else value


class AlertRules(BaseModel):
    """Rules of an alert, as a user enters them."""

    # A form also contains its CSRF token.
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    name: Annotated[Line, Field(min_length=1, max_length=200)]
    query: Annotated[str, Field(max_length=4000)] = ""
    """Query for the traces, such as ``testbed=2n-clx&metric=mrr``; empty: all."""
    method: Literal["mdl", "three-sigma", "step"] = "mdl"
    """The detector."""
    history: Annotated[int, Field(ge=10, le=1000)] = 180
    """Number of newest commits that the detector reads."""
    formula: Literal["jumpavg-0.4", "jumpavg-0.1"] = "jumpavg-0.4"
    """mdl: formula of the description length."""
    window: Annotated[int, Field(ge=4, le=1000)] = 30
    """three-sigma: number of runs that define the normal range."""
    step: StepName = StepMethod.CORRECTED.value
    """step: the statistic."""
    radius: Annotated[int, Field(ge=2, le=100)] = 7
    """step: number of runs on each side."""
    cutoff: float = 7.0
    """step: threshold of the statistic."""
    change_percent: Annotated[float, Field(ge=0, le=10_000)] = 1.0
    """Minimum change, in percent of the value before."""
    confidence_percent: Annotated[float, Field(ge=0, lt=100)] = 0.0
    """Minimum confidence, in percent; 0: no minimum."""
    direction: Literal["both", "regression", "progression"] = "both"
    recent_runs: Annotated[int, Field(ge=1, le=1000)] = 30
    """A change is not reported if it is older than this number of runs when it is first found."""
    silent_runs: Annotated[int, Field(ge=0, le=1000)] = 0
    """Number of runs without a value after which a trace is reported; 0: never."""
    silent_hours: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    """Number of hours without a run after which a testbed is reported; 0: never."""
    owner: Annotated[Line, Field(max_length=200)] = ""
    action: Literal["none", "mail", "gerrit", "webhook"] = "none"
    target: Annotated[Line, Field(max_length=2000, validate_default=True)] = ""
    """Mail addresses; the URL of a webhook; for Gerrit, the project on whose changes messages are posted."""
    enabled: bool = True

    @field_validator("query")
    @classmethod
    def _is_query(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("write unprintable characters as %XX")
        return str(_sensible(parse, value.strip()))

    @field_validator("confidence_percent")
    @classmethod
    def _has_confidence(cls, value: float, info: ValidationInfo) -> float:
        method = info.data.get("method", "mdl")
        if value and method != "mdl":
            raise ValueError(f"the detector {method} has no confidence; leave confidence_percent at 0")
        return value

    @field_validator("target")
    @classmethod
    def _is_target(cls, value: str, info: ValidationInfo) -> str:
        action = info.data.get("action", "none")
        if action in _TARGETS and not value:
            raise ValueError(_TARGETS[action])
        if action == "webhook":
            _sensible(check_url, value)
        if action == "mail":
            addresses = mail_addresses(value)
            if not addresses:
                raise ValueError(_TARGETS["mail"])
            for each in addresses:
                _sensible(address, each)
        return value

    @model_validator(mode="after")
    def _is_sensible(self) -> AlertRules:
        _sensible(self._detector)
        return self

    @property
    def rules(self) -> Rules:
        """The rules in the form of the store."""
        return Rules(
            name=self.name,
            query=self.query,
            detector=asdict(self._detector()),
            change=self.change_percent / 100,
            confidence=self.confidence_percent / 100,
            direction=self.direction,
            recent_runs=self.recent_runs,
            silent_runs=self.silent_runs,
            silent_hours=self.silent_hours,
            owner=self.owner,
            action=self.action,
            target=self.target,
            enabled=self.enabled,
        )

    def _detector(self) -> Detector:
        return Detector(
            self.method, self.history, self.formula, window=self.window, step=self.step, radius=self.radius,
            cutoff=self.cutoff,
        )  # fmt: skip


class EditedAlert(AlertRules):
    """An edit of an alert."""

    version: Number
    """Version of the alert that the edit is based on."""


class DeletedAlert(BaseModel):
    """A deletion of an alert."""

    model_config = ConfigDict(extra="ignore")

    version: Number


class OverrideEdit(BaseModel):
    """Other thresholds for a trace or a test, or a date until which it is muted; default: as in the alert."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    version: Number
    """Version of the alert."""
    trace: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """Hash of the trace key."""
    scope: Literal["trace", "test"] = "trace"
    """Only that trace, or all traces of its test on its testbed, such as those of other metrics."""
    change_percent: Annotated[Annotated[float, Field(ge=0, le=10_000)] | None, BeforeValidator(_none)] = None
    confidence_percent: Annotated[Annotated[float, Field(ge=0, lt=100)] | None, BeforeValidator(_none)] = None
    muted_until: Annotated[Day | None, BeforeValidator(_none)] = None
    reason: Annotated[Line, Field(max_length=1000)] = ""

    def override(self, alert: int, trace: str, user: str) -> Override:
        """Return the override of a trace for the store.

        :param trace: the hash of its key.
        """
        until = self.muted_until
        if until is not None and until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return Override(
            alert,
            trace,
            change=None if self.change_percent is None else self.change_percent / 100,
            confidence=None if self.confidence_percent is None else self.confidence_percent / 100,
            muted_until=until,
            reason=self.reason,
            changed_by=user,
        )


class AlertView(BaseModel):
    """An alert."""

    id: int
    rules: dict[str, Any]
    """In the form that an edit sends; viewers do not receive the target."""
    changed: datetime
    changed_by: str
    version: int
    """Required in an edit."""
    traces: int | None
    """Number of traces that match its query; null if the query is no longer valid."""
    problem: str
    """Why its action cannot be executed with the current settings; empty if it can."""

    @classmethod
    def of(cls, alert: Alert, traces: int | None, *, problem: str, with_target: bool) -> AlertView:
        """Return the view of an alert from the store."""
        rules = asdict(alert.rules)
        detector = asdict(Detector()) | rules.pop("detector")
        rules |= {
            **{name: value for name, value in detector.items() if name in AlertRules.model_fields},
            "change_percent": round(100 * rules.pop("change"), 10),
            "confidence_percent": round(100 * rules.pop("confidence"), 10),
        }
        if not with_target:
            rules["target"] = ""
        return cls(
            id=alert.identity,
            rules=rules,
            changed=alert.changed,
            changed_by=alert.changed_by,
            version=alert.version,
            traces=traces,
            problem=problem,
        )


class AlertList(BaseModel):
    """All alerts, by their names."""

    alerts: list[AlertView]


class OverrideView(BaseModel):
    """Other thresholds for one trace, or a date until which it is muted."""

    trace: str
    name: str
    testbed: str
    """Empty: the trace is no longer in the store."""
    change_percent: float | None
    confidence_percent: float | None
    muted_until: datetime | None
    reason: str
    changed: datetime
    changed_by: str


class AlertDetail(BaseModel):
    """An alert with its overrides."""

    alert: AlertView
    overrides: list[OverrideView]
    error: str = ""
    """Why nothing was changed, if another user was faster."""


class DryRunRequest(BaseModel):
    """Testbed and number of nights of a dry run."""

    model_config = ConfigDict(extra="ignore")

    testbed: Annotated[str, Field(min_length=1, max_length=255)]
    nights: Annotated[int, Field(ge=1, le=100)] = 30


class WouldNotify(BaseModel):
    """An item that an alert would have reported."""

    kind: str
    last_good: str
    first_changed: str
    first_changed_at: datetime
    traces: int
    names: list[str]
    """The largest changes first, at most 10."""
    largest: float | None
    """Relative to the value before."""


class NightView(BaseModel):
    """Items that one night would have reported."""

    commit: str
    moment: datetime
    items: list[WouldNotify]
    joined: int
    """Number of traces that join an item of an earlier night and are not reported."""
    closed: int


class DryRun(BaseModel):
    """Messages that an alert would have sent, night by night."""

    alert: int
    version: int
    """Version of the alert that the dry run evaluates."""
    testbed: str
    state: Literal["waiting", "running", "done", "failed"]
    error: str = ""
    nights: int
    """Number of nights to evaluate."""
    looked_at: int
    traces: int
    told: list[NightView]
    """Nights with new items, joined traces or closed items."""

    @property
    def items(self) -> int:
        """Number of items that it would have reported."""
        return sum(len(night.items) for night in self.told)


def _sensible(check: Any, *values: object) -> Any:  # noqa: ANN401 - the type depends on the check
    """Return the result of a check; if it fails, raise ValueError with the message of the check."""
    try:
        return check(*values)
    except PerftrendError as error:
        raise ValueError(str(error)) from None
