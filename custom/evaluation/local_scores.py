"""What a site's own model and the global one score on the site's own cases; stays at the site."""

from collections.abc import Mapping

from torch import nn

from ..data.json_record import JsonRecord
from ..data.site_data import SiteData
from ..settings import RunSettings
from .inference import Inference
from .segmentation_scores import evaluate


class ModelScores(JsonRecord):
    """Scores of one model.

    Args:
        dice: mean Dice over the cases in which a class is annotated, and over classes; None where nothing is annotated.
        left_empty: mean fraction of the cases without a class in which it is found nowhere, None without such a case.
        hd95: mean HD95, None where it is defined for no case.
        hd95_undefined: cases and classes that are annotated and found nowhere, which have no distance.
    """

    dice: float | None
    # Records of earlier versions lack it.
    left_empty: float | None = None
    hd95: float | None
    # As above.
    hd95_undefined: int | None = None


class LocalScores(JsonRecord):
    """The content of a site's ``local_scores.json``.

    Args:
        num_cases: validation cases of the site.
        models: ``global``, the shared model, where that is one by itself, and ``local``, the site's own; beside one
            with a threshold of its own ``local_at_half``, the same without.
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
        name: evaluate(model, data.cases, settings.network.num_classes, Inference.of(settings), data.annotated_labels)
        for name, model in models.items()
    }
    return LocalScores(
        num_cases=len(data.cases),
        models={
            name: ModelScores(
                dice=scores.mean_dice,
                left_empty=scores.mean_left_empty,
                hd95=scores.mean_hd95,
                hd95_undefined=sum(scores.hd95_undefined),
            )
            for name, scores in scored.items()
        },
    )
