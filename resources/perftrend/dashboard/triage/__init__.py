"""Alerts and triage: evaluation of the alerts, delivery of their messages, and triage of the items."""

from perftrend.dashboard.triage.evaluation import Evaluated, evaluate
from perftrend.dashboard.triage.sending import Sent, deliver

__all__ = ["Evaluated", "Sent", "deliver", "evaluate"]
