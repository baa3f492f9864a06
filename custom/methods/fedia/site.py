"""FedIA at a site: how complete its annotations are, and their correction."""

import shlex
from collections.abc import Mapping
from typing import Any

from torch import nn

from ...corrections.model import Corrections
from ...data.datalist import TRAINING
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView
from ...seeding import derive_seed
from ...task_names import CORRECT_ANNOTATIONS
from ..auto.protected_cases import protected_cases
from ..fedavg.site import FedAvgSite
from .annotation_correction import correct_annotations
from .completeness_report import completeness_report
from .settings import FedIASettings

# Of two classes the more probable one.
_CONTOUR = 0.5


class CorrectingSite(FedAvgSite):
    """Trains on its annotations, corrected ones once it was asked for them.

    Corrected annotations lie in the run's folder. Where a run is continued the site takes them over from there.
    """

    @property
    def corrects(self) -> bool:
        """Whether the job has corrections."""
        raise NotImplementedError

    def before_task(self, site: SiteView) -> None:
        """Take over what the continued run had corrected by then, for its next round, too."""
        if self.corrects and site.continued_round is not None:
            self.adopt_corrections(site, site.continued_round + 1)

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether the site trains on corrected annotations."""
        return {"has_corrected": site.corrections.latest() is not None} if self.corrects else {}


class FedIASite(CorrectingSite):
    """Reports its completeness, and corrects its annotations once."""

    settings: FedIASettings

    @property
    def corrects(self) -> bool:
        """Whether the settings say so."""
        return self.settings.correction

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_completeness`` or ``correct_annotations``."""
        if task == CORRECT_ANNOTATIONS:
            self._correct(network, site)
            return Answer({"has_corrected": True})
        seed = derive_seed(self.settings.seed, site.name, site.round_number, "completeness")
        return completeness_report(network, site.load(TRAINING), self.settings, seed=seed)

    def _correct(self, network: nn.Module, site: SiteView) -> None:
        """Correct the annotations, once; a second call finds the work done."""
        if site.corrections.latest() is not None:
            return
        folder, data = site.corrections.folder_of(site.round_number), site.load(TRAINING)
        corrections = correct_annotations(
            network,
            data,
            folder,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            threshold=_CONTOUR if self.settings.additions == "lesions" else self.settings.correction_threshold,
            inference=Inference.of(self.settings),
            smallest_lesion=self.settings.smallest_lesion if self.settings.additions == "lesions" else None,
            is_proposed=self.settings.corrections == "ask",
            reverted=protected_cases(site, data),
        )
        before, added = in_words(corrections, site.round_number)
        word = shlex.quote(str(folder.absolute()))
        if self.settings.corrections == "ask":
            site.info(
                f"{before} would be corrected, {added} added; the given ones count. To look at them: fedannot "
                f"corrections show {word}; to let them count: fedannot corrections restore {word}"
            )
        else:
            site.info(
                f"{before} corrected, {added} added. To look at them or to revert: fedannot corrections show {word}"
            )


def in_words(corrections: Corrections, round_number: int) -> tuple[str, str]:
    """Return for the site's log in how many annotations of how many something changes, and what is added."""
    masks = [case.mask for case in corrections.cases if case.mask is not None]
    voxels, lesions = (sum(getattr(mask, of) for mask in masks) for of in ("added_voxels", "new_lesions"))
    before = f"Before round {round_number}: {len(masks)} of {len(corrections.cases)} annotations"
    return before, f"{voxels} voxels and {lesions} lesions"
