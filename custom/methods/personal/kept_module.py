"""A module that a site keeps from round to round besides the shared model, such as an adversary; it never leaves it."""

import copy

from torch import nn

from ...data.tensor_files import UNREADABLE, save_tensors_of_round
from ...interface.views import SiteView
from ...networks.devices import params_in_main_memory


def restore_module(
    module: nn.Module, site: SiteView, folder: str, *, first_round: int | None = 1, last_round: int | None = None
) -> bool:
    """Give a module what the site has kept of the latest earlier round; what cannot be used changes nothing of it.

    Args:
        module: as it is at the start.
        site: the site in a round; its log says from the round after the first on if nothing is kept.
        folder: the folder in the run's folder.
        first_round: the first round that keeps something; None where nothing is said if nothing is kept.
        last_round: the latest that counts; None for the one before this.

    Returns:
        Whether it has what was kept.
    """
    start = copy.deepcopy(module.state_dict())
    try:
        kept = site.kept_tensors(folder, site.round_number - 1 if last_round is None else last_round)
        if kept is not None:
            module.load_state_dict(kept[1])
        is_restored = kept is not None
        is_absent = not is_restored and first_round is not None and site.round_number > first_round
        problem = f"nothing is kept in {folder}" if is_absent else None
    except (*UNREADABLE, KeyError, TypeError, AttributeError) as error:
        module.load_state_dict(start)
        is_restored = False
        problem = f"what is kept in {folder} cannot be used ({type(error).__name__}: {error})"
    if problem is not None:
        site.warning(f"Round {site.round_number}: {problem}; the site initialises it again.")
    return is_restored


def keep_module(module: nn.Module, site: SiteView, folder: str, keep: tuple[int, ...]) -> bool:
    """Keep a module after the round's training; one that is not finite is not kept, and the site's log says so.

    Args:
        module: as it is now.
        site: the site in a round.
        folder: the folder in the run's folder.
        keep: rounds whose files stay.

    Returns:
        Whether it is kept.
    """
    params = params_in_main_memory(module)
    if not all(bool(tensor.isfinite().all()) for tensor in params.values()):
        site.warning(
            f"Round {site.round_number}: what is to be kept in {folder} is not finite, and is not kept; the next round "
            "goes on from an earlier one. Was a step or the learning rate too large?"
        )
        return False
    save_tensors_of_round(site.run_folder / folder, site.round_number, params, keep=keep)
    return True
