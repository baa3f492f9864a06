"""An audit of class labels at a site: findings that stay there."""

from torch import nn

from ...annotation_bias.estimate import sent
from ...audit.findings import AUDIT_FOLDER, read_audit, write_audit
from ...data.datalist import TRAINING
from ...interface.views import Answer, SiteView
from ...seeding import derive_seed
from ...task_names import AUDIT_LABELS, CONCLUDE, ESTIMATE_CONFUSION
from ..audit.folds_site import FoldsSite
from ..auto_classification.outbound import NOISE_LEVEL, SUPPORT
from .settings import AuditClassificationSettings


class AuditClassificationSite(FoldsSite):
    """Trains the reference models, keeps them, and scores its labels; what is found lies in the folder ``audit``."""

    settings: AuditClassificationSettings

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``keep_reference_model``, ``estimate_confusion``, ``audit_labels`` or ``conclude``."""
        if task == CONCLUDE:
            return self._conclude(site)
        if task == ESTIMATE_CONFUSION:
            return self._estimate(network, site)
        if task == AUDIT_LABELS:
            # Only a site that is audited pays for scipy's statistics; also below.
            from .label_report import label_report  # noqa: PLC0415

            return label_report(self.models(network, site), site, self.settings)
        return super().answer(task, network, site)

    def _estimate(self, network: nn.Module, site: SiteView) -> Answer:
        """Report the noise level, and whether samples that look alike side with the models."""
        from ..auto_classification.confident_samples import estimate_support  # noqa: PLC0415
        from .label_report import noise_level  # noqa: PLC0415
        from .label_scores import predicted_labels  # noqa: PLC0415

        predicted = predicted_labels(self.models(network, site), site.load(TRAINING), self.settings)
        seed = derive_seed(site.seed, site.name, site.round_number, SUPPORT)
        support = estimate_support(
            predicted.balanced, predicted.labels, predicted.units, self.settings.confident_fraction, seed=seed
        )
        estimate = noise_level(predicted, site, self.settings)
        return Answer(sent(NOISE_LEVEL, [estimate], calibrated=True) | sent(SUPPORT, [support], calibrated=False))

    def _conclude(self, site: SiteView) -> Answer:
        """Add what the federation concludes to the findings."""
        # It checks what the server says with records, which no other task needs.
        from .conclusions import with_conclusion  # noqa: PLC0415

        folder = site.run_folder / AUDIT_FOLDER
        write_audit(folder, with_conclusion(read_audit(folder), site.message["conclude"]))
        return Answer({"has_concluded": True})
