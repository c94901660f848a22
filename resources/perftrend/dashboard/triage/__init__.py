"""Alerts and triage: evaluation of the alerts, delivery of their messages, and triage of the items."""

from perftrend.dashboard.triage.evaluation import EvaluationResult, evaluate
from perftrend.dashboard.triage.notifications import DeliveryCounts, deliver

__all__ = ["DeliveryCounts", "EvaluationResult", "deliver", "evaluate"]
