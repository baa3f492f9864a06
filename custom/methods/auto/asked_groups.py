"""The groups of sites' annotators as `auto` asks them: to the boundary profile each is like a site."""

from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

import torch

from ...interface.views import Asking
from ...records.round_records import Record
from .outbound import ANNOTATOR_GROUPS, NUM_SAMPLES

# The key of a message with the number of the group that is asked.
GROUP = "annotator_group"


class AnnotatorGroup(Record):
    """The cases of one annotator of a site.

    Attributes:
        site: its name.
        number: by which the site knows the annotator, from 1; 0 for all cases without a group of their own.
    """

    site: str
    number: int

    @property
    def key(self) -> str:
        """The name under which records have it."""
        return f"{self.site}/{self.number}"


class GroupAsking:
    """Asks groups in place of sites, see :class:`.Asking`: questions and answers are by the keys of groups.

    The first question is to sites by their names, without messages of their own. All groups of a site together have no
    more samples than the site claims, as far as that counts.

    Args:
        ask: asks sites.
        groups: the groups that are known, to which those of sites that answer for the first time are added.
    """

    def __init__(self, ask: Asking, groups: MutableMapping[str, AnnotatorGroup]) -> None:
        self._ask, self._groups = ask, groups
        self._samples: dict[str, int] = {}

    def __call__(
        self,
        task: str,
        sites: Collection[str] | None = None,
        params: Mapping[str, torch.Tensor] | None = None,
        own_messages: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Ask groups; without messages sites, which then say how many groups they have."""
        if params is not None:
            raise ValueError("Expected a question without another model.")
        if own_messages is None:
            return self._first(task, sites)
        return self._of_groups(task, own_messages)

    def _first(self, task: str, sites: Collection[str] | None) -> dict[str, dict[str, Any]]:
        answers = self._ask(task) if sites is None else self._ask(task, sites)
        of_sites = {site: int(answer.get(ANNOTATOR_GROUPS, 0)) for site, answer in answers.items()}
        own = [AnnotatorGroup(site=site, number=n + 1) for site, count in of_sites.items() for n in range(count)]
        rest = {site: AnnotatorGroup(site=site, number=0) for site in of_sites}
        self._groups.update({group.key: group for group in (*own, *rest.values())})
        result = self._of_groups(task, {group.key: {} for group in own})
        left = {site: answer[NUM_SAMPLES] for site, answer in answers.items() if NUM_SAMPLES in answer}
        for group in own:
            claimed = result.get(group.key, {}).get(NUM_SAMPLES, 0)
            self._samples[group.key] = min(claimed, left.get(group.site, 0))
            left[group.site] = left.get(group.site, 0) - self._samples[group.key]
        self._samples |= {rest[site].key: left.get(site, 0) for site in rest}
        result |= {rest[site].key: answer for site, answer in answers.items()}
        return {key: self._counted(key, result[key]) for key in sorted(result)}

    def _of_groups(self, task: str, messages: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """What groups answer; a site has one message at a time, so that all first groups are asked, then others."""
        result: dict[str, dict[str, Any]] = {}
        asked = [self._groups[key] for key in messages]
        for number in sorted({group.number for group in asked}):
            of_number = {group.site: group.key for group in asked if group.number == number}
            own = {site: {**messages[key], GROUP: number} for site, key in of_number.items()}
            answers = self._ask(task, sorted(own), own_messages=own)
            result |= {of_number[site]: self._counted(of_number[site], one) for site, one in answers.items()}
        return result

    def _counted(self, key: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        if NUM_SAMPLES not in answer or key not in self._samples:
            return dict(answer)
        return {**answer, NUM_SAMPLES: self._samples[key]}
