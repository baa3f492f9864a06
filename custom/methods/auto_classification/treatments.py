"""FedGSCA in place of corrections, to compare with: it begins where something is confirmed."""

from ...interface.declaration import Method
from ...settings import RunSettings, SettingValues
from .. import fedgsca
from ..fedavg.settings import ClassificationSettings
from .settings import AutoClassificationSettings

# What goes to the sites once it treats.
TREATMENT = "treatment"

# FedGSCA's form in jobs/fedgsca, which does better than the published one where a network starts from nothing.
FORM: SettingValues = {
    "selector_losses": "received",
    "sample_loss": "mae",
    "confident_doubts": True,
    "pseudo_labels": "fixed",
    "fixed_threshold": 0.8,
    "loss": "ce",
}


def treatment_of(settings: AutoClassificationSettings) -> tuple[Method, RunSettings] | None:
    """Return FedGSCA with its settings where it treats what is confirmed; None where correcting does.

    What all methods of classification share it has from there, and the warm-up; else it has the form of its job.
    """
    if settings.treatment != "fedgsca":
        return None
    values = settings.model_dump()
    shared = {name: values[name] for name in (*ClassificationSettings.model_fields, "warmup_rounds")}
    return fedgsca.METHOD, fedgsca.METHOD.settings.model_validate(shared | FORM | {"method": fedgsca.METHOD.name})
