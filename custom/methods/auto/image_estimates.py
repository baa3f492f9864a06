"""What images say of all sites in a run of `auto`: asked before the first round, and of sites that join later."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ....transforms.strict_files import JsonObject
from ...annotation_bias.profile.decision import ProfileEstimate
from ...annotation_bias.profile.estimation import estimate_profiles
from ...interface.views import Round
from ...records.plain_values import finite
from .asked_groups import AnnotatorGroup, GroupAsking
from .asked_sites import AskedSites, KeptAnswers
from .bias_record import image_bias_record
from .image_decisions import Profiles, decide_by_images
from .records import BiasRecord
from .settings import AutoSettings


class ImageState(KeptAnswers):
    """What is kept over a restart: of each class by site what images say, who was asked, and what was answered.

    By annotator also which groups there are.
    """

    profiles: list[dict[str, JsonObject]]
    asked: list[str]
    groups: dict[str, JsonObject]


class ImageEstimates:
    """Asks every site once for its boundary profile, again if it did not answer before the first round.

    Where one joins it alone is asked, and compared with what the others have said.

    Args:
        settings: the job's.

    Attributes:
        profiles: of each class by site; empty before anybody was asked.
        groups: the groups of annotators that stand for sites, by their names there; empty where sites do themselves.
    """

    def __init__(self, settings: AutoSettings) -> None:
        self.profiles: Profiles = ()
        self.groups: dict[str, AnnotatorGroup] = {}
        self._settings = settings
        self._asked: set[str] = set()
        self._kept: KeptAnswers = {"curves": {}, "noisy": {}}
        # A run of an earlier version has kept none: all are asked once more.
        self._lacks_curves = False

    def estimate(self, this_round: Round) -> BiasRecord | None:
        """Ask whom nobody has asked, and decide on them; what is known of the others stays.

        Args:
            this_round: before its training.

        Returns:
            What was concluded of these sites; None where nobody is to be asked, or nobody answers.
        """
        trained = {site for record in this_round.history[-1:] for site in record.sites}
        joined = trained - self._asked
        if not self._settings.asks_images or (self.profiles and not joined):
            return None
        num_classes = self._settings.network.num_classes
        is_first = not self.profiles
        names = None if is_first or self._lacks_curves else joined
        asked = replace(this_round, ask=self.by_annotator(this_round)) if self._settings.is_by_annotator else this_round
        sites = AskedSites(asked, num_classes, self._kept, names)
        found = tuple(
            {site: replace(one, samples=sites.samples.get(site, 0)) for site, one in profile.items()}
            for profile in estimate_profiles(sites, num_classes)
        )
        if this_round.is_stopped():
            return None
        answered = {site for profile in found for site in profile}
        new = answered if is_first else {name for name in answered if self.site_of(name) in joined}
        self._asked |= {self.site_of(name) for name in new} | joined
        self._lacks_curves = False
        if not is_first:
            found = tuple(
                {**known, **{site: one for site, one in profile.items() if site in new}}
                for known, profile in zip(self.profiles, found, strict=True)
            )
        profiles = self._with_votes(found)
        self.profiles = profiles
        record = image_bias_record(decide_by_images(profiles, self._settings), profiles, this_round.number)
        if self.groups:
            record = record.model_copy(update={"groups": dict(self.groups)})
        if sites.moved:
            record = record.model_copy(update={"moved_masks": sites.moved})
        return record.of_sites(new) if new else None

    def site_of(self, name: str) -> str:
        """Return the site of a group of annotators; a site's own name stays."""
        group = self.groups.get(name)
        return name if group is None else group.site

    def _with_votes(self, profiles: Profiles) -> Profiles:
        """The estimates with the votes of a site shared by its groups: a site has no more say for having many.

        Groups of which nothing is known, such as a rest without patients, take no vote from those that are. Where it
        counts that nothing is known, those with a curve share one vote, too.
        """
        result = []
        for profile in profiles:
            known = Counter(self.site_of(name) for name, one in profile.items() if one.is_known)
            others = Counter(self.site_of(name) for name, one in profile.items() if math.isfinite(one.bias))
            shares = {
                name: (known if one.is_known else others).get(self.site_of(name), 0) for name, one in profile.items()
            }
            result.append({name: replace(one, votes=1 / max(1, shares[name])) for name, one in profile.items()})
        return tuple(result)

    def by_annotator(self, this_round: Round) -> GroupAsking:
        """Return what asks groups in place of sites; groups that it learns of are known from then on."""
        return GroupAsking(this_round.ask, self.groups)

    def state(self) -> ImageState:
        """Return what is known as plain values."""
        return {
            "profiles": [
                {
                    site: finite({"patients": one.patients, "samples": one.samples, **one.numbers()})
                    for site, one in profile.items()
                }
                for profile in self.profiles
            ],
            "asked": sorted(self._asked),
            "groups": {name: group.plain() for name, group in self.groups.items()},
            **self._kept,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self._asked = set(state["asked"])
        self.groups = {name: AnnotatorGroup.model_validate(of) for name, of in state.get("groups", {}).items()}
        self.profiles = self._with_votes(
            [{site: _estimate(values) for site, values in profile.items()} for profile in state["profiles"]]
        )
        self._kept = {
            "curves": {site: dict(answers) for site, answers in state.get("curves", {}).items()},
            "noisy": {site: dict(answers) for site, answers in state.get("noisy", {}).items()},
        }
        with_bias = {site for profile in self.profiles for site, one in profile.items() if math.isfinite(one.bias)}
        self._lacks_curves = not with_bias <= self._kept["curves"].keys() | self._kept["noisy"].keys()


def _estimate(values: Mapping[str, Any]) -> ProfileEstimate:
    """An estimate from plain values: what has no number is absent, or as uncertain as can be."""
    patients = values["patients"]
    numbers = {
        # A run that was begun before sites said it has no radius.
        name: absent if values.get(name) is None else float(values[name])
        for name, absent in ProfileEstimate.absent().numbers().items()
    }
    # Nor samples; patients count then.
    return ProfileEstimate(patients, **numbers, samples=values.get("samples", 0))
