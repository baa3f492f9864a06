"""An audit at a site: findings that stay at the site."""

from torch import nn

from ...annotation_bias.statuses import Unit
from ...audit.findings import AUDIT_FOLDER, read_audit, write_audit
from ...audit.kind_names import SEGMENTATION_KINDS
from ...data.datalist import TRAINING
from ...interface.views import Answer, SiteView
from ...seeding import derive_seed
from ...task_names import AUDIT_CASES, CONCLUDE, ESTIMATE_ANNOTATION_BIAS
from ..auto.scored_cases import reviewed_cases
from .folds_site import FoldsSite
from .settings import AuditSettings


class AuditSite(FoldsSite):
    """Trains the reference models, keeps them, and scores its cases; findings lie in the run's folder as ``audit``."""

    settings: AuditSettings

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``keep_reference_model``, ``estimate_annotation_bias``, ``audit_cases`` or ``conclude``."""
        if task == CONCLUDE:
            return self._conclude(site)
        if task == ESTIMATE_ANNOTATION_BIAS:
            from ..auto.bias_measurement import measure_bias  # noqa: PLC0415

            models, seed = self.models(network, site), derive_seed(site.seed, site.name, site.round_number, "channel")
            return measure_bias(models, site.load(TRAINING), reviewed_cases(site), self.settings, seed=seed)
        if task == AUDIT_CASES:
            return self._audit(network, site)
        return super().answer(task, network, site)

    def _audit(self, network: nn.Module, site: SiteView) -> Answer:
        """Score all cases."""
        from ...audit.auditing import audit_site  # noqa: PLC0415
        from .leaving_annotators import annotators_answer  # noqa: PLC0415
        from .site_report import site_report  # noqa: PLC0415

        models, data, folder = self.models(network, site), site.load(TRAINING), site.run_folder / AUDIT_FOLDER
        seed = derive_seed(site.seed, site.name, "audit")
        result = audit_site(data, models.network_of, models.inference, site.locate().folder, folder, seed=seed)
        unit: Unit = "px" if data.cases[0].spacing is None else "mm"
        annotators, leaving = annotators_answer(models, data, site, self.settings)
        answer = site_report(
            site, data, models, self.settings, result, kinds=SEGMENTATION_KINDS, unit=unit, annotators=annotators
        )
        return Answer({**answer.fields, **leaving})

    def _conclude(self, site: SiteView) -> Answer:
        """Add what the federation concludes to the findings."""
        # It checks what the server says with records, which no other task needs.
        from .conclusions import with_conclusions  # noqa: PLC0415

        folder = site.run_folder / AUDIT_FOLDER
        write_audit(folder, with_conclusions(read_audit(folder), site.message["conclude"]))
        return Answer({"has_concluded": True})
