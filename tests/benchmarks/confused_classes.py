"""When confused classes of objects are confirmed, by simulation; no images, no training.

    python tests/benchmarks/confused_classes.py                # a minute

Ten sites of twelve patients with ten objects each, of classes that are equally frequent. A model sees the class of each
object: its scores are those of the class, and noise on all. Two sites annotate otherwise, as the case says. For each
case the mean true and estimated fraction of the two, and how often `auto` relabels at them, and at the others: in % of
sites over all draws.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedannot.custom.annotation_bias.confusion import ObjectSamples, are_of_known_classes, exchanged_part
from fedannot.custom.annotation_bias.error_injection import calibrate_confusion
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.feature_names import FEATURES
from fedannot.custom.annotation_bias.image_features import ImageStatistics
from fedannot.custom.annotation_bias.site_estimates import estimate_confused
from fedannot.custom.corrections.kinds import ObjectsRelabelled, of_kind
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.decisions import decide
from fedannot.custom.methods.auto.settings import AutoSettings

SITES, CONFUSED_SITES, PATIENTS, OBJECTS = 10, 2, 12, 10
UNITS = tuple(f"patient-{index // OBJECTS}" for index in range(PATIENTS * OBJECTS))
# Of the class's score over the others; noise has a standard deviation of 1.
CONFIDENT, UNSURE = 6.0, 1.5

Labels = NDArray[np.int64]


def as_they_are(true: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
    """Right labels."""
    del num_classes, generator
    return true


def exchanged(true: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
    """The codes of the first two classes exchanged."""
    del generator
    return np.array([1, 0, *range(2, num_classes)])[true]


def at_random(share: float, true: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
    """A fraction of the objects with any other class."""
    other = (true + generator.integers(1, num_classes, len(true))) % num_classes
    return np.where(generator.random(len(true)) < share, other, true)


@dataclass(frozen=True)
class Case:
    """What is simulated.

    Attributes:
        what: in words.
        num_classes: classes of objects.
        noise: labels that the two sites give.
        score: of an object's class, by class: how sure the model is of it.
        unlearnt: a class that the model takes for the first one; None for none.
        liar: whether one of the others claims that nothing is confused there.
        mix: fractions of the classes at the two sites; None for equal ones.
        mix_of_others: as above at the others.
    """

    what: str
    num_classes: int = 2
    noise: Callable[[Labels, int, np.random.Generator], Labels] = as_they_are
    score: tuple[float, ...] = (CONFIDENT,)
    unlearnt: int | None = None
    liar: bool = False
    mix: tuple[float, ...] | None = None
    mix_of_others: tuple[float, ...] | None = None


CASES = (
    *(Case(f"codes of two of {number} classes exchanged", number, exchanged) for number in (2, 3, 4, 5, 8)),
    *(
        Case(f"{share:.0%} of two classes confused", 2, partial(at_random, share))
        for share in (0.3, 0.5, 0.7, 0.8, 0.9)
    ),
    Case("right labels", 2),
    Case("right labels, a model that errs", 2, score=(UNSURE,)),
    Case("right labels, a model that errs, a site that claims none", 2, score=(UNSURE,), liar=True),
    Case(
        "right labels, a model that errs in one class, more of it at two sites",
        2,
        score=(0.5, CONFIDENT),
        mix=(0.9, 0.1),
    ),
    Case("codes exchanged, a model that errs", 2, exchanged, score=(UNSURE,)),
    Case("codes of two of 8 classes exchanged, a model that errs", 8, exchanged, score=(2 * UNSURE,)),
    Case("right labels of 8 classes, a model that errs", 8, score=(2 * UNSURE,)),
    Case(
        "right labels of 4 classes, a model that errs in two, more of these at two sites",
        4,
        score=(0.5, 0.5, CONFIDENT, CONFIDENT),
        mix=(0.45, 0.45, 0.05, 0.05),
    ),
    Case("right labels, all of a class that the model has not learnt", 2, unlearnt=1, mix=(0, 1), mix_of_others=(1, 0)),
    Case(
        "right labels, most of a class that the model has not learnt",
        2,
        unlearnt=1,
        mix=(0.2, 0.8),
        mix_of_others=(0.9, 0.1),
    ),
    Case(
        "right labels, two of three classes, one not learnt",
        3,
        unlearnt=1,
        mix=(0, 0.7, 0.3),
        mix_of_others=(0.5, 0, 0.5),
    ),
)


def one_site(
    case: Case, generator: np.random.Generator, *, is_confused: bool, seed: int
) -> tuple[float, Estimate, float]:
    """Return the true fraction of wrong labels at a site, its estimate, and the part with exchanged codes."""
    number, count = case.num_classes, PATIENTS * OBJECTS
    true = generator.choice(number, count, p=case.mix if is_confused else case.mix_of_others)
    scores, seen = generator.standard_normal((count, number)), np.where(true == case.unlearnt, 0, true)
    scores[np.arange(count), seen] += np.resize(case.score, number)[seen]
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    given = case.noise(true, number, generator) if is_confused else true
    share = estimate_confused(ObjectSamples(probabilities, given, UNITS), seed=seed)
    known = are_of_known_classes(probabilities, given)
    part = exchanged_part(probabilities[known], given[known])
    return float((given != true).mean()), calibrate_confusion(probabilities, given, seed=seed).of(share), part


def answer(confused: Estimate, part: float, num_classes: int) -> BiasReport:
    """A site's answer in which only classes are in question: contours are right, and nothing is missing."""
    right, complete = (Estimate(PATIENTS, at, at - 0.2, at + 0.2, slope=1.0, auroc=1.0) for at in (0.0, 1.0))
    images = ImageStatistics(PATIENTS, (0.0,) * len(FEATURES), (1.0,) * len(FEATURES))
    all_classes, unknown = num_classes * (right,), num_classes * (Estimate.unknown(),)
    return BiasReport(
        num_samples=PATIENTS,
        pixel_size=1.0,
        images=images,
        annotated_patients=num_classes * (PATIENTS,),
        offset=all_classes,
        edges=all_classes,
        reviewed_from_model=unknown,
        given_from_reviewed=unknown,
        completeness=num_classes * (complete,),
        confused=confused,
        exchanged_part=part,
    )


def simulate(case: Case, draws: int, first_seed: int) -> str:
    """Return the line of a case."""
    settings = AutoSettings.model_validate({"network": {"num_classes": case.num_classes}})
    true, estimates, result, accused = [], [], 0, 0
    for seed in range(first_seed, first_seed + draws):
        generator = np.random.default_rng(seed)
        answers = {}
        for site in range(SITES):
            share, estimate, part = one_site(case, generator, is_confused=site < CONFUSED_SITES, seed=seed)
            if site < CONFUSED_SITES:
                true.append(share)
                estimates.append(estimate.value)
            elif case.liar and site == SITES - 1:
                estimate = replace(estimate, value=0.0, low=0.0, high=0.0, slope=1.0, auroc=1.0)
            answers[f"site-{site}"] = answer(estimate, part, case.num_classes)
        asked = decide(answers, settings, seed=seed).corrections
        relabelling = [site for site, corrections in asked.items() if of_kind(corrections, ObjectsRelabelled)]
        confident = [int(site.removeprefix("site-")) < CONFUSED_SITES for site in relabelling]
        result, accused = result + sum(confident), accused + len(confident) - sum(confident)
    shares = f"{np.mean(true):.2f} | {np.mean(estimates):.2f}"
    rates = f"{100 * result / (draws * CONFUSED_SITES):.0f} | {100 * accused / (draws * (SITES - CONFUSED_SITES)):.0f}"
    return f"| {case.what} | {shares} | {rates} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=100)
    options = parser.parse_args()
    print("| two of ten sites | true share | estimated | relabelled, % | others relabelled, % |\n|---|---|---|---|---|")
    for case in CASES:
        print(simulate(case, options.draws, options.first_seed), flush=True)


if __name__ == "__main__":
    main()
