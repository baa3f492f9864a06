"""Which other sites' models are most and least like a site's, on random images (FedDM)."""

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from ...evaluation.inference import evaluating
from ...networks.described import described_network
from ...seeding import derive_seed
from .settings import FedDMSettings

# Numbers of all maps that are in memory at once.
_MOST_NUMBERS = 2**24


def random_images(settings: FedDMSettings, num_sites: int) -> Iterator[torch.Tensor]:
    """Yield the random images, uniform in [0, 1), in parts ``(B, channels, H, W[, D])``; the same in every round.

    Args:
        settings: the job's.
        num_sites: how many models there are, whose maps have to be in memory.
    """
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, "random images"))
    extents, network = settings.random_extents, settings.network
    each = num_sites * (network.num_classes + 1) * torch.Size(extents).numel()
    size = max(_MOST_NUMBERS // each, 1)
    for first in range(0, settings.random_images, size):
        number = min(size, settings.random_images - first)
        yield torch.rand(number, network.in_channels, *extents, generator=generator)


def image_distances(maps: torch.Tensor) -> torch.Tensor:
    """Return how far every two sites' maps of an image lie apart, ``(B, K, K)``.

    Args:
        maps: softmax maps, ``(K, B, …)``.
    """
    flat = maps.flatten(2).double().transpose(0, 1)
    return torch.stack(
        [torch.linalg.vector_norm(flat - flat[:, index : index + 1], dim=2) for index in range(len(maps))], 1
    )


def chosen_peers(distances: torch.Tensor) -> list[tuple[int, int] | None]:
    """Return of every site the other one that is nearest in most images, and the one that is farthest in most.

    Of equal distances, or equal numbers of images, the first site counts. A model whose maps are not finite, by which
    every distance to it is NaN, is nobody's peer and gets none; so does a site without another one.

    Args:
        distances: of all images, ``(B, K, K)``; K is at least 2.
    """
    # To itself a site has a distance of 0, or of NaN.
    usable = torch.nonzero(distances.diagonal(dim1=1, dim2=2).isfinite().all(dim=0)).flatten().tolist()
    result: list[tuple[int, int] | None] = []
    for site in range(distances.shape[1]):
        others = [other for other in usable if other != site]
        if site not in usable or not others:
            result.append(None)
            continue
        of_others = distances[:, site, others]
        votes = [torch.bincount(places, minlength=len(others)) for places in (of_others.argmin(1), of_others.argmax(1))]
        nearest, farthest = (others[int(vote.argmax())] for vote in votes)
        result.append((nearest, farthest))
    return result


def peers_by_models(
    models: Mapping[str, Mapping[str, torch.Tensor]], settings: FedDMSettings
) -> dict[str, tuple[str, str]]:
    """Return the nearest and the farthest other site of each that has peers, see :func:`chosen_peers`.

    Args:
        models: state dicts by site, of two sites at least.
        settings: the job's.
    """
    sites = sorted(models)
    with torch.random.fork_rng(devices=[]):
        network: nn.Module = described_network(settings.network)
    distances = []
    for images in random_images(settings, len(sites)):
        maps = []
        for site in sites:
            network.load_state_dict(dict(models[site]))
            with evaluating(network), torch.inference_mode():
                maps.append(network(images).softmax(dim=1))
        distances.append(image_distances(torch.stack(maps)))
    chosen = chosen_peers(torch.cat(distances))
    pairs = {site: pair for site, pair in zip(sites, chosen, strict=True) if pair is not None}
    return {site: (sites[near], sites[far]) for site, (near, far) in pairs.items()}
