"""A site's updates in fewer bits: what rounding leaves is kept at the site, and sent with the next one."""

from collections.abc import Collection, Mapping

import torch

from ..aggregation.quantised_updates import quantised, quantised_names
from ..data.tensor_files import UNREADABLE, save_tensors_of_round
from ..interface.views import SiteView
from ..settings import RunSettings

# In a site's run folder.
RESIDUALS_FOLDER = "residuals"


def update_of_round(
    params: Mapping[str, torch.Tensor],
    reference: Mapping[str, torch.Tensor],
    settings: RunSettings,
    trained: Collection[str],
    site: SiteView,
) -> dict[str, torch.Tensor]:
    """Return the message of a trained model, and keep its residual, which never leaves the site.

    The residual of the round before counts. It is dropped if the site sent nothing in that round, since the model has
    moved on, or if it is of another network. A run that is continued finds the residual of the round after which it
    goes on, so that its bits are those of one that was never stopped.

    Args:
        params: the state dict that would leave the site.
        reference: the received one.
        settings: the job's; they ask for another precision than ``fp32``.
        trained: names of the network's parameters.
        site: the site in this round.

    Raises:
        ValueError: if the two are of different networks.
    """
    received = {name: torch.as_tensor(value) for name, value in reference.items()}
    residual = _last_residual(received, trained, site)
    update = quantised(params, received, settings.update_precision, trained, residual)
    # An empty one, too: in its place an earlier round's would be found.
    save_tensors_of_round(
        site.run_folder / RESIDUALS_FOLDER, site.round_number, update.residual, keep=settings.keep_rounds
    )
    return update.sent


def _last_residual(
    reference: Mapping[str, torch.Tensor], trained: Collection[str], site: SiteView
) -> dict[str, torch.Tensor] | None:
    last = site.round_number - 1
    try:
        kept = site.kept_tensors(RESIDUALS_FOLDER, last)
    except UNREADABLE as error:
        site.warning(
            f"Round {site.round_number}: the residual of the last update in {RESIDUALS_FOLDER} cannot be read "
            f"({type(error).__name__}); zeros count."
        )
        return None
    if kept is None or kept[0] != last:
        return None
    shapes = {name: reference[name].shape for name in quantised_names(reference, trained)}
    if {name: value.shape for name, value in kept[1].items()} != shapes:
        return None
    return kept[1]
