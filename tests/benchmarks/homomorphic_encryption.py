"""What it costs to average encrypted models with a weight per site and layer block: `pip install tenseal`, then run it.

Every site encrypts its model block by block (CKKS); the server multiplies each block by its weight in plain numbers and
adds, and the sites decrypt the sum. Compared with the average of the plain models.
"""

import argparse
import time

import numpy as np
import tenseal
import torch

from fedannot.custom.aggregation.streaming_average import StreamingAverage
from fedannot.custom.methods.feda3i.settings import FedA3ISettings
from fedannot.custom.methods.feda3i.weights import layer_coefficients, layer_weights
from fedannot.custom.networks.building import assign_blocks, layer_blocks
from fedannot.custom.networks.described import described_network

SLOTS = 4096


def encrypted(context: tenseal.Context, values: np.ndarray) -> list[tenseal.CKKSVector]:
    """Encrypt a block's values, as many at a time as a ciphertext has slots."""
    return [tenseal.ckks_vector(context, values[start : start + SLOTS]) for start in range(0, len(values), SLOTS)]


def main() -> None:
    """Average and print times, sizes and the largest error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--features", type=int, nargs=6, default=[16, 32, 64, 128, 128, 16])
    arguments = parser.parse_args()
    network = described_network(FedA3ISettings(network={"features": tuple(arguments.features)}).network)
    reference = {name: tensor for name, tensor in network.state_dict().items() if tensor.is_floating_point()}
    blocks = layer_blocks(network, ())
    block_of = assign_blocks(reference, blocks)
    sites = [f"site-{number}" for number in range(arguments.sites)]
    generator = torch.Generator().manual_seed(0)
    models = {
        site: {name: t + 0.01 * torch.randn(t.shape, generator=generator) for name, t in reference.items()}
        for site in sites
    }
    quantity = {site: 1 / len(sites) for site in sites}
    quality = {site: 2 * (index + 1) / (len(sites) * (len(sites) + 1)) for index, site in enumerate(sites)}
    weights = layer_weights(quality, quantity, blocks, layer_coefficients(len(blocks)))

    started = time.perf_counter()
    plain = StreamingAverage(reference, block_of)
    for site in sites:
        plain.add(site, models[site], weights.of(site), 1)
    expected = plain.result()
    plain_seconds = time.perf_counter() - started

    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 2 * SLOTS, coeff_mod_bit_sizes=[60, 40, 40])
    context.global_scale = 2**40
    values = {
        site: {
            block: np.concatenate([models[site][name].flatten() for name in reference if block_of[name] == block])
            for block in blocks
        }
        for site in sites
    }
    started = time.perf_counter()
    sent = {site: {block: encrypted(context, values[site][block]) for block in blocks} for site in sites}
    encrypting = (time.perf_counter() - started) / len(sites)
    size = sum(len(vector.serialize()) for block in blocks for vector in sent[sites[0]][block])
    started = time.perf_counter()
    sums = {}
    for block in blocks:
        parts = [[vector * weights.of(site)[block] for vector in sent[site][block]] for site in sites]
        sums[block] = [sum(same[1:], same[0]) for same in zip(*parts, strict=True)]
    adding = time.perf_counter() - started
    started = time.perf_counter()
    errors = []
    for block in blocks:
        result = np.concatenate([vector.decrypt() for vector in sums[block]])
        wanted = np.concatenate([expected[name].flatten() for name in reference if block_of[name] == block])
        errors.append(np.abs(result - wanted).max())
    decrypting = time.perf_counter() - started
    number = sum(tensor.numel() for tensor in reference.values())
    print(f"{number} values, {len(sites)} sites, {len(blocks)} blocks; a model is {4 * number / 2**20:.1f} MiB")
    print(f"encrypted: {size / 2**20:.1f} MiB a model, {size / 4 / number:.0f} times as much")
    print(f"encrypting {encrypting:.2f} s a site, weighing and adding {adding:.2f} s, decrypting {decrypting:.2f} s")
    print(f"plain, with all checks of a sum in fixed point: {plain_seconds:.2f} s; largest error {max(errors):.1e}")


if __name__ == "__main__":
    main()
