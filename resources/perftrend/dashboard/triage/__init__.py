"""Alerts and triage: evaluation of the alerts, delivery of their messages, and triage of the items."""

from perftrend.dashboard.triage.delivery import DeliveryCounts, deliver
from perftrend.dashboard.triage.evaluation import EvaluationResult, evaluate

__all__ = ["DeliveryCounts", "EvaluationResult", "deliver", "evaluate"]
