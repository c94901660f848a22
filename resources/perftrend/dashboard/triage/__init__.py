"""Alerts and triage: what the alerts find each night, who is told, and what people say of it."""

from perftrend.dashboard.triage.evaluation import Evaluated, evaluate
from perftrend.dashboard.triage.sending import Sent, deliver

__all__ = ["Evaluated", "Sent", "deliver", "evaluate"]
