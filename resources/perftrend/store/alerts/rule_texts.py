"""Rules and overrides of alerts in words, for the activity log, which users read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perftrend.store.alerts.alerts import Override, Rules


def _percent(ratio: float) -> str:
    return f"{round(100 * ratio, 10):g} %"


def _switch(is_on: object) -> str:
    return "on" if is_on else "off"


def _hidden(text: object) -> str:
    # Everyone may read the log, but not where alerts send to.
    return "…" if text else "nobody"


_LABELS: Mapping[str, str] = {
    "name": "name",
    "query": "query",
    "change": "minimum change",
    "confidence": "minimum confidence",
    "direction": "direction",
    "recent_runs": "newest runs",
    "silent_runs": "missing data after runs",
    "silent_hours": "testbed without runs after hours",
    "owner": "owner",
    "action": "action",
    "target": "send to",
    "enabled": "state",
    "method": "detector",
    "history": "newest commits",
    "formula": "description length",
    "outliers": "separation of single bad runs",
    "window": "three-sigma window",
    "step": "step fit statistic",
    "radius": "step fit runs on each side",
    "cutoff": "step fit cutoff",
}
_WORDS: Mapping[str, Callable[[Any], str]] = {
    "query": lambda text: text or "all traces",
    "change": _percent,
    "confidence": lambda ratio: _percent(ratio) if ratio else "none",
    "direction": {"both": "both", "regression": "regressions", "progression": "progressions"}.__getitem__,
    "silent_runs": lambda number: f"{number or 'never'}",
    "silent_hours": lambda hours: f"{hours:g}" if hours else "never",
    "owner": lambda text: text or "nobody",
    "target": _hidden,
    "enabled": _switch,
    "outliers": _switch,
    "cutoff": "{:g}".format,
}
_DEFAULT = "default"


def describe_rules(rules: Rules) -> str:
    """Return all rules of an alert: ``name nightly, query all traces, minimum change 3 %``."""
    return ", ".join(f"{_LABELS.get(name, name)} {text}" for name, text in _texts(rules).items())


def describe_difference(before: Rules, after: Rules) -> str:
    """Return the rules that differ: ``minimum change 3 % → 5 %``."""
    old, new = _texts(before), _texts(after)
    # A target is hidden, so that its text may be the same.
    is_moved = before.target != after.target
    return ", ".join(
        f"{_LABELS.get(name, name)} {old.get(name, _DEFAULT)} → {new.get(name, _DEFAULT)}"
        for name in {**old, **new}
        if old.get(name) != new.get(name) or (name == "target" and is_moved)
    )


def describe_override(override: Override) -> str:
    """Return the values of an override: ``trace 3f…: minimum change 7 %, muted until 2026-03-02``."""
    until = override.muted_until
    parts = {
        "minimum change": None if override.change is None else _percent(override.change),
        "minimum confidence": None if override.confidence is None else _percent(override.confidence),
        "muted until": until and f"{until:%Y-%m-%d}",
        "reason": override.reason or None,
    }
    text = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
    return f"trace {override.trace}: {text or 'as the alert'}"


def _texts(rules: Rules) -> dict[str, str]:
    values = asdict(rules)
    values |= values.pop("detector")
    return {name: _WORDS.get(name, str)(value) for name, value in values.items()}
