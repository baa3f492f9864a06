"""FedIA at a site: how complete its annotations are, and their correction."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ...data.corrections import CORRECTIONS_FOLDER, labels_in_use, read_corrections
from ...data.datalist import TRAINING
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView
from ...seeding import derive_seed
from ...task_names import CORRECT_ANNOTATIONS
from ..fedavg.site import FedAvgSite
from .annotation_correction import adopt_corrections, correct_annotations
from .completeness_report import completeness_report
from .settings import FedIASettings

# Of two classes the more probable one.
_CONTOUR = 0.5


class FedIASite(FedAvgSite):
    """Trains on its annotations, corrected ones once it was asked for them.

    Corrected annotations lie in the run's folder. Where a run is continued the site takes them over from there.
    """

    settings: FedIASettings

    def before_task(self, site: SiteView) -> None:
        """Take over what the continued run had corrected by then."""
        if not self.settings.correction or site.continued_round is None:
            return
        for earlier in site.earlier_folders:
            taken = adopt_corrections(
                earlier / CORRECTIONS_FOLDER,
                site.run_folder / CORRECTIONS_FOLDER,
                data_folder=site.locate().folder,
                last_round=site.continued_round + 1,
            )
            if taken:
                site.info(f"The corrected annotations of {earlier} are used.")

    def labels_in_use(self, section: str, site: SiteView) -> Mapping[Path, Path]:
        """Return the corrected annotations of the training cases; the data manager may revert some at any time."""
        if section != TRAINING:
            return {}
        return labels_in_use(site.run_folder / CORRECTIONS_FOLDER, site.locate().folder)

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether the site trains on corrected annotations."""
        if not self.settings.correction:
            return {}
        return {"has_corrected": read_corrections(site.run_folder / CORRECTIONS_FOLDER) is not None}

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_completeness`` or ``correct_annotations``."""
        if task == CORRECT_ANNOTATIONS:
            self._correct(network, site)
            return Answer({"has_corrected": True})
        seed = derive_seed(self.settings.seed, site.name, site.round_number, "completeness")
        return completeness_report(network, site.load(TRAINING), self.settings, seed=seed)

    def _correct(self, network: nn.Module, site: SiteView) -> None:
        """Correct the annotations, once; a second call finds the work done."""
        folder = site.run_folder / CORRECTIONS_FOLDER
        if read_corrections(folder) is not None:
            return
        corrections = correct_annotations(
            network,
            site.load(TRAINING),
            folder,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            threshold=_CONTOUR if self.settings.additions == "lesions" else self.settings.correction_threshold,
            inference=Inference.of(self.settings),
            smallest_lesion=self.settings.smallest_lesion if self.settings.additions == "lesions" else None,
            waits=self.settings.corrections == "ask",
        )
        changed = [label for label in corrections.labels if label.file]
        voxels, lesions = (sum(getattr(label, of) for label in changed) for of in ("added_voxels", "new_lesions"))
        added = f"{voxels} voxels and {lesions} lesions"
        count = f"{len(changed)} of {len(corrections.labels)} annotations"
        if self.settings.corrections == "ask":
            told = (
                f"{count} would be corrected, {added} added; the given ones count. To look at them: fedannot "
                f"corrections show {folder}; to let them count: fedannot corrections restore {folder}"
            )
        else:
            told = (
                f"{count} corrected, {added} added. To look at them or to undo it: fedannot corrections show {folder}"
            )
        site.info(f"Before round {site.round_number}: {told}")
