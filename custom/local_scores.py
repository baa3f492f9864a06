"""What a site's own model and the global one score on the site's own cases; stays at the site."""

from collections.abc import Mapping

from torch import nn

from .data.json_record import JsonRecord
from .data.site_data import SiteData
from .evaluation import evaluate
from .inference import Inference
from .settings import RunSettings


class ModelScores(JsonRecord):
    """Scores of one model.

    Args:
        dice: mean Dice over cases and classes.
        hd95: mean HD95 likewise, None where it is defined for no case.
    """

    dice: float
    hd95: float | None


class LocalScores(JsonRecord):
    """The content of a site's ``local_scores.json``.

    Args:
        num_cases: validation cases of the site.
        models: ``global``, the shared model, where that is one by itself, and ``local``, the site's own.
    """

    num_cases: int
    models: dict[str, ModelScores]


def local_scores(models: Mapping[str, nn.Module], data: SiteData, settings: RunSettings) -> LocalScores:
    """Score models on a site's cases.

    Args:
        models: by name.
        data: at least one case.
        settings: the job's settings.
    """
    scored = {
        name: evaluate(model, data.cases, settings.network.num_classes, Inference.of(settings))
        for name, model in models.items()
    }
    return LocalScores(
        num_cases=len(data.cases),
        models={
            name: ModelScores(
                dice=scores.mean_dice,
                hd95=scores.mean_hd95 if any(scores.num_cases - count for count in scores.hd95_undefined) else None,
            )
            for name, scores in scored.items()
        },
    )
