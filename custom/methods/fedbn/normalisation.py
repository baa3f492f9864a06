"""Which layers of a network FedBN leaves to the sites."""

from torch import nn

from ...networks.layout import is_normalisation


def normalisations(network: nn.Module) -> list[nn.Module]:
    """Return the normalisation layers of a network, each once, in its own order."""
    return [module for module in network.modules() if is_normalisation(module)]


def has_normalisation(network: nn.Module) -> bool:
    """Return whether a network has normalisation layers with values: without, nothing would be a site's own."""
    return any(layer.state_dict() for layer in normalisations(network))
