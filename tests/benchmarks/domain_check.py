"""How often a site's images count as of another kind: where all are of one kind, and where one site's or all differ.

    python tests/benchmarks/domain_check.py --splits 200
    python tests/benchmarks/domain_check.py --splits 200 --sources

The first command splits data sets of one kind of images at random into sites and prints, in percent, the sites that
are gated for nothing and the federations with such a site; then how often a site is gated whose images another scanner
might have made. The second one takes sites of several sources: blood cells of four laboratories and cells of five
microscopes. No network is trained. Apart from the phantoms it needs FEDANNOT_REAL_DATA.

Rules that are compared: ``pool`` (Welch's t-test against all other sites together), ``median`` (t-test against the
median site), ``distance`` (mean square distance from the median site), all with Holm's correction over sites and
features, and ``pairs``, the project's. Contrast × 0.6 is corrected by the z-score, so that no rule can or need see it.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from real_federations import CELL_SOURCES, LARGEST_BLOOD_SOURCE, real_data
from scipy import stats
from simulated_scanners import another_scanner

from fedannot.apps.importing.datalists import read_source_datalist
from fedannot.apps.wording.evidence import evidence_in_words
from fedannot.custom.annotation_bias.domain_check import check_domains
from fedannot.custom.annotation_bias.image_features import ImageStatistics, image_features, statistics_of_features
from fedannot.custom.annotation_bias.significance import holm
from fedannot.custom.data.phantoms.drawing import Drawing
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_site
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.loading.image_pipeline import build_picture_pipeline, decode_case
from fedannot.transforms.loading.volume_pipeline import VolumePipeline

Array = np.ndarray[Any, Any]
# Which sites are gated.
Rule = Callable[[Sequence[ImageStatistics]], Array]

LEVEL = 0.05
SEED = 7
NUM_CASES = 400
# Sites × cases.
SIZES = ((6, 6), (10, 6), (10, 12), (6, 16), (10, 20), (4, 20), (5, 40))
SHIFTED_SIZES = ((6, 6), (6, 12), (10, 20))


def numbers(sites: Sequence[ImageStatistics]) -> tuple[Array, Array, Array]:
    """Return patients ``(K, 1)``, means and deviations ``(K, D)`` of the sites."""
    deviations = np.maximum([site.deviations for site in sites], 0.02)
    return np.array([[site.patients] for site in sites]), np.array([site.means for site in sites]), deviations


def corrected(p_values: Array) -> Array:
    """Return p-values after Holm's correction, in their shape."""
    return np.array(holm(p_values.ravel())).reshape(p_values.shape)


def by_pool(sites: Sequence[ImageStatistics]) -> Array:
    """Welch's t-test of each site against all cases of the others."""
    n, means, deviations = numbers(sites)
    p_values = []
    for site in range(len(n)):
        others = np.arange(len(n)) != site
        total = n[others].sum()
        mean = (n[others] * means[others]).sum(axis=0) / total
        squares = (n[others] - 1) * deviations[others] ** 2 + n[others] * (means[others] - mean) ** 2
        pooled = np.sqrt(squares.sum(axis=0) / (total - 1))
        p_values.append(
            stats.ttest_ind_from_stats(means[site], deviations[site], n[site], mean, pooled, total, False).pvalue
        )
    return (corrected(np.array(p_values)) <= LEVEL).any(axis=1)


def from_median(sites: Sequence[ImageStatistics]) -> tuple[Array, int]:
    """Return the distance of each site from the median site in standard errors ``(K, D)``, and degrees of freedom."""
    n, means, deviations = numbers(sites)
    freedom = int((n - 1).sum())
    pooled = np.sqrt(((n - 1) * deviations**2).sum(axis=0) / freedom)
    error = np.sqrt(1 / n + np.pi / 2 * len(n) / np.sqrt(n).sum() ** 2)
    return np.abs(means - np.median(means, axis=0)) / pooled / error, freedom


def by_median(sites: Sequence[ImageStatistics]) -> Array:
    """Student's t-test of each site against the median site, with the spread of all."""
    distances, freedom = from_median(sites)
    return (corrected(2 * stats.t.sf(distances, freedom)) <= LEVEL).any(axis=1)


def by_distance(sites: Sequence[ImageStatistics]) -> Array:
    """The mean square of these distances over features; as if four of the features were independent."""
    squares = (from_median(sites)[0] ** 2).mean(axis=1)
    return corrected(stats.chi2.sf(4 * squares, 4)) <= LEVEL


def by_pairs(sites: Sequence[ImageStatistics]) -> Array:
    """The project's rule."""
    checks = check_domains({f"{index:04d}": one for index, one in enumerate(sites)})
    return np.array([checks[site].out_of_domain for site in sorted(checks)])


RULES: Mapping[str, Rule] = {"pool": by_pool, "median": by_median, "distance": by_distance, "pairs": by_pairs}


def pictures(files: Sequence[Path], channels: int, size: tuple[int, int]) -> list[Array]:
    """Load pictures as the network gets them."""
    pipeline = build_picture_pipeline(channels=channels, size=size)
    return [decode_case(pipeline, {"image": file})["image"].numpy()[None] for file in files]


def phantoms(drawing: Drawing, seeds: Sequence[int], num_sites: int, cases: int) -> list[Array]:
    """Draw the sites' images of phantom federations."""
    images: list[Array] = []
    with TemporaryDirectory() as name:
        for seed in seeds:
            for site in range(num_sites):
                folder = Path(name) / f"{seed}-{site}"
                write_phantom_site(folder, site, drawing, num_sites=num_sites, seed=seed, num_images=cases)
                data = load_site_data(folder, Path(name) / "cache", site=folder.name)
                images += [case.image.numpy().copy() for case in data.cases]
    return images


def sources_of(pack: str) -> dict[str, list[Path]]:
    """Return the images of each source of a pack, at most 400, drawn."""
    sources: dict[str, list[Path]] = {}
    for case in read_source_datalist(real_data() / pack / "datalist.json").cases:
        sources.setdefault(str(case.source), []).append(case.image)
    generator = np.random.default_rng(SEED)
    return {
        source: [files[index] for index in generator.permutation(len(files))[:NUM_CASES]]
        for source, files in sources.items()
    }


def collections() -> Iterator[tuple[str, list[Array]]]:
    """Yield data sets with images of one kind."""
    yield "phantom", phantoms(LesionImages(), range(100, 110), 10, 12)
    yield "phantom volumes, slices", phantoms(LesionVolumes(), range(100, 103), 4, 10)
    breast = real_data() / "busi-breast-us" / "seg" / "images"
    yield "breast ultrasound", pictures(sorted([*breast.glob("benign_*"), *breast.glob("malignant_*")]), 1, (64, 64))
    yield "blood cells", pictures(sources_of("bloodcells-multicentre")[LARGEST_BLOOD_SOURCE], 3, (32, 32))
    volumes = sorted((real_data() / "hippocampus-msd" / "images").glob("*.nii.gz"))
    whole = VolumePipeline(labels={1: 1}, spacing=(1.5, 1.5, 1.5))
    yield "hippocampus", [whole({"image": file}).image.numpy() for file in volumes]
    sliced = VolumePipeline(labels={1: 1}, size=(48, 64), slice_axis=2)
    yield "hippocampus, slices", [sliced({"image": file}).image.numpy() for file in volumes[:130]]


SHIFTS = (
    "contrast 0.6",
    "gamma 1.5",
    "blur 0.5 px",
    "blur 1 px",
    "noise 0.1",
    "noise 0.3",
    "sharpened",
    "inverted",
)


def features_of(images: Sequence[Array]) -> Array:
    """Return the features of cases ``(N, D)``."""
    return np.array([image_features(image) for image in images])


def site_of(features: Array) -> ImageStatistics:
    """Return what a site with these cases sends."""
    return statistics_of_features(list(features), [str(index) for index in range(len(features))]).outbound()


def gated(federations: Sequence[Sequence[ImageStatistics]], rule: Rule) -> Array:
    """Return which sites of which federations are gated, ``(N, K)``."""
    return np.array([rule(sites) for sites in federations])


def splits(features: Array, num_sites: int, cases: int, count: int) -> Iterator[Array]:
    """Yield the indices of the cases of each site, ``(K, n)``, drawn at random."""
    generator = np.random.default_rng(SEED)
    for _ in range(count):
        yield generator.permutation(len(features))[: num_sites * cases].reshape(num_sites, cases)


def print_one_kind(count: int) -> None:
    """Print what is gated for nothing, and what of another scanner is."""
    loaded = {name: (images, features_of(images)) for name, images in collections()}
    print(f"{'gated for nothing: % of sites / % of federations':52s}" + "".join(f"{name:>14s}" for name in RULES))
    for name, (_, features) in loaded.items():
        for num_sites, cases in SIZES:
            if num_sites * cases > len(features):
                continue
            federations = [
                [site_of(features[site]) for site in item] for item in splits(features, num_sites, cases, count)
            ]
            result = [gated(federations, rule) for rule in RULES.values()]
            cells = [f"{100 * item.mean():.1f} / {100 * item.any(axis=1).mean():.1f}" for item in result]
            print(f"{name:30s}{num_sites:3d} sites × {cases:2d} cases    " + "".join(f"{cell:>14s}" for cell in cells))
    print(f"\n{'one site of another scanner: % gated':52s}" + "".join(f"{name:>14s}" for name in RULES))
    for name, (images, features) in loaded.items():
        for kind in SHIFTS:
            generator = np.random.default_rng(SEED)
            shifted = features_of([another_scanner(kind, image, generator) for image in images])
            for num_sites, cases in SHIFTED_SIZES:
                if num_sites * cases > len(features):
                    continue
                federations = [
                    [site_of(shifted[item[0]]), *(site_of(features[site]) for site in item[1:])]
                    for item in splits(features, num_sites, cases, count)
                ]
                cells = [f"{100 * gated(federations, rule)[:, 0].mean():.0f}" for rule in RULES.values()]
                print(
                    f"{name:24s}{kind:14s}{num_sites:3d} × {cases:2d}      " + "".join(f"{item:>14s}" for item in cells)
                )


def print_mixture(title: str, parts: Sequence[tuple[Array, int]], cases: int, count: int) -> None:
    """Print how often the sites of each source are gated; parts are features of a source and its number of sites."""
    federations: list[list[ImageStatistics]] = [[] for _ in range(count)]
    for features, num_sites in parts:
        for sites, one in zip(federations, splits(features, num_sites, cases, count), strict=True):
            sites += [site_of(features[site]) for site in one]
    source = np.repeat(np.arange(len(parts)), [num_sites for _, num_sites in parts])
    cells = []
    for rule in RULES.values():
        result = gated(federations, rule)
        cells.append("/".join(f"{100 * result[:, source == index].mean():.0f}" for index in range(len(parts))))
    print(f"{title:45s}{cases:3d} cases" + "".join(f"{cell:>20s}" for cell in cells))


def print_sources(count: int) -> None:
    """Print what is gated where sites are of several sources."""
    print(f"{'sites of several sources: % gated of each source':54s}" + "".join(f"{name:>20s}" for name in RULES))
    files = sources_of("bloodcells-multicentre")
    names = [LARGEST_BLOOD_SOURCE, "bccd", "jiangxi_tecom", "cellavision_blog"]
    a, b, c, d = (features_of(pictures(files[name], 3, (32, 32))) for name in names)
    for cases in (6, 12, 20):
        print_mixture("blood cells, 1 + 1 + 1 + 1 sites", [(a, 1), (b, 1), (c, 1), (d, 1)], cases, count)
        print_mixture("blood cells, 5 + 5 sites", [(a, 5), (b, 5)], cases, count)
        print_mixture("blood cells, 4 + 3 + 3 sites", [(a, 4), (b, 3), (c, 3)], cases, count)
        print_mixture("blood cells, 7 + 3 sites", [(a, 7), (c, 3)], cases, count)
        print_mixture("blood cells, 9 + 1 sites", [(a, 9), (d, 1)], cases, count)
    files = sources_of("bubil-cells")
    cells = [features_of(pictures(files[source], 1, (64, 64))) for source in CELL_SOURCES]
    together = np.concatenate(cells)
    for cases in (6, 12, 20, 35):
        print_mixture("cells, one site of each of five sources", [(cell, 1) for cell in cells], cases, count)
    for cases in (6, 12, 20):
        print_mixture("cells, sources mixed in 10 sites (one kind)", [(together, 10)], cases, count)
    checks = check_domains({source: site_of(one) for source, one in zip(CELL_SOURCES, cells, strict=True)})
    print("\ncells, every case of each source:")
    for source, check in checks.items():
        print(f"{source}: {evidence_in_words(check.evidence)}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--sources", action="store_true", help="sites of several sources")
    arguments = parser.parse_args()
    if arguments.sources:
        print_sources(arguments.splits)
    else:
        print_one_kind(arguments.splits)


if __name__ == "__main__":
    main()
