"""The grammar of comments with the trigger words, testbeds and limits of the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perftrend import trigger
from perftrend.measure import specification
from perftrend.settings import Settings
from perftrend.trigger import OptionLimits, Refusal, Trigger


@dataclass(frozen=True, slots=True)
class Grammar:
    """Validated trigger words, testbeds and limits."""

    words: Mapping[str, str]
    testbeds: tuple[str, ...]
    limits: OptionLimits

    @classmethod
    def of(cls, settings: Settings) -> Grammar:
        """Return the grammar of the settings.

        :raises SettingsError: if a trigger word is not valid, or a testbed has no file.
        """
        for name in settings.trigger.testbeds:
            specification.load(name, settings.testbeds)
        shortest, fewest = trigger.DEFAULT_LIMITS.duration_s[0], trigger.DEFAULT_LIMITS.multiplicity[0]
        return cls(
            words=trigger.validate_words(settings.trigger.words),
            testbeds=settings.trigger.testbeds or tuple(specification.names(settings.testbeds)),
            limits=OptionLimits(
                duration_s=(shortest, max(shortest, settings.trigger.maximum_duration_s)),
                multiplicity=(fewest, settings.trigger.maximum_multiplicity),
            ),
        )

    def parse(self, texts: str | Iterable[str]) -> list[Trigger | Refusal]:
        """Return the triggers and refusals in the texts of a review."""
        return trigger.parse(texts, words=self.words, testbeds=self.testbeds, limits=self.limits)
