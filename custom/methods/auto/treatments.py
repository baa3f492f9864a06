"""Published methods in the place of undoing, to compare with: they begin where something is established."""

from ...interface.declaration import Method
from ...settings import RunSettings
from .. import feda3i, fedia
from ..fedavg.settings import WarmupSettings
from .settings import AutoSettings

TREATMENTS: dict[str, Method] = {"feda3i": feda3i.METHOD, "fedia": fedia.METHOD}


def treatment_of(settings: AutoSettings) -> tuple[Method, RunSettings] | None:
    """Return the method that treats what is established, with its settings; None where nothing else than undoing does.

    What all methods with a warm-up share it has from there; else its settings are its own defaults.
    """
    method = TREATMENTS.get(settings.treatment)
    if method is None:
        return None
    shared = {name: value for name, value in settings.model_dump().items() if name in WarmupSettings.model_fields}
    return method, method.settings.model_validate(shared | {"method": method.name})
