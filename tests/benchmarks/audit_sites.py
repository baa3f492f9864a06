"""What an audit says of sites beside what is true of them: order, bad sites, false alarms, intervals, "cannot tell".

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/audit_sites.py --rows graded clean busi --seeds 100 --out DIR

Each row is a federation whose sites' true offsets, or fractions of missing objects, follow from the clean labels beside
the given ones. A site is bad from 2 px (pixels of the network's images) or a tenth of the objects on, and clean below
0.5 px or a twentieth. Zero is common to all sites: intervals are compared with the truth of the site less the reference
level, the reference level being what makes the mean error 0. Finished runs are kept. Seeds below 100 are for figures
that are reported.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from auto_estimates import complete_share, true_offset
from benchmark_tables import fedia
from benchmark_tables.auto import another_scanner, difficult, one_site
from benchmark_tables.feda3i import NOISE_SMALLER, phantom
from benchmark_tables.rows import MakeData
from PIL import Image
from real_federations import write_breast_lesions
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from fedannot.apps.audit.running import run_audit
from fedannot.apps.reports.output import read_summary
from fedannot.apps.wording.evidence import reason_in_words
from fedannot.custom.annotation_bias.estimate_record import ParameterRecord
from fedannot.custom.annotation_bias.parameters import ParameterKey, ParameterKind
from fedannot.custom.annotation_bias.statuses import Status
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.noisy_copy import add_contour_noise
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.methods.auto.records import BiasFindings

JOBS = Path(__file__).parents[2] / "jobs"
GRADED, GRADED_BUSI = "M(25,-25,10,0.5)", "M(25,-15,5,0.5)"
# A deviation from which on a site is bad, and below which it is clean.
OFFSET, MISSING = ParameterKind.OFFSET, ParameterKind.MISSING
BAD, CLEAN = {OFFSET: 2.0, MISSING: 0.1}, {OFFSET: 0.5, MISSING: 0.05}


@dataclass(frozen=True)
class Row:
    """A federation of the table.

    Attributes:
        what: what it is.
        make: writes it.
        parameter: what is looked at.
        settings: of the audit.
        honest: sites that must not be accused, beside those that are clean.
    """

    what: str
    make: MakeData
    parameter: ParameterKind = OFFSET
    settings: Mapping[str, Any] = field(default_factory=dict)
    honest: tuple[str, ...] = ()


@dataclass(frozen=True)
class PredictedSite:
    """One site of one run.

    Attributes:
        true: its offset in pixels, or fraction of missing objects.
        dice: of its masks with the clean ones.
        found: what the audit says.
    """

    site: str
    true: float
    dice: float
    found: ParameterRecord


def rare_cases(folder: Path, seed: int) -> None:
    """Phantoms of which an honest site has a third whose lesions are dark where all others are bright."""
    phantom(None)(folder, seed)
    for file in sorted((folder / "site-1" / "images").glob("*.png"))[::3]:
        Image.fromarray(255 - np.asarray(Image.open(file))).save(file)


def breast_lesions(noise: str | None) -> MakeData:
    """BUSI's lesions as they are, or with contours of sites moved."""

    def make(folder: Path, seed: int) -> None:
        if noise is None:
            write_breast_lesions(folder, seed)
            return
        given = folder.with_name(f"{folder.name}-given")
        write_breast_lesions(given, seed)
        add_contour_noise(given, folder, NoiseChoice(noise, exact=True), seed=seed)

    return make


ON_BUSI = {"training.local_epochs": 5}
ON_VOLUMES = {key: value for key, value in fedia.SETTINGS.items() if "rounds" not in key} | {"rounds": 12}
ROWS = {
    "graded": Row(f"phantom, {GRADED}, strengths from 0", phantom(GRADED, stratified=None)),
    "strong": Row(f"phantom, {NOISE_SMALLER} “D”", phantom(NOISE_SMALLER)),
    "clean": Row("phantom, clean labels", phantom(None)),
    "larger": Row("phantom, all sites larger, M(25,-25,10,1) “D”", phantom("M(25,-25,10,1)")),
    "scanner": Row("phantom, clean, one site with another scanner", one_site(another_scanner), honest=("site-1",)),
    "difficult": Row("phantom, clean, one site with difficult cases", one_site(difficult), honest=("site-1",)),
    "rare": Row("phantom, clean, one site with rare cases", rare_cases, honest=("site-1",)),
    "busi": Row(f"BUSI lesions, {GRADED_BUSI}, strengths from 0", breast_lesions(GRADED_BUSI), settings=ON_BUSI),
    "busi-given": Row("BUSI lesions as they are", breast_lesions(None), settings=ON_BUSI),
    "missing": Row("volumes, 4/6/8/10 tenths annotated", fedia.volumes(fedia.MS[0]), MISSING, ON_VOLUMES),
    "complete": Row("volumes, everything annotated", fedia.volumes(None), MISSING, ON_VOLUMES),
}


def site_dice(data: SiteData) -> float:
    """Return the mean Dice of a site's masks with the clean ones; 1 where the given ones are all that is known."""
    result = []
    for case in data.cases:
        if case.clean_label is not None:
            given, clean = case.label.numpy() > 0, case.clean_label.numpy() > 0
            result.append(2 * (given & clean).sum() / max(int(given.sum() + clean.sum()), 1))
    return float(np.mean(result)) if result else 1.0


def truth(data: SiteData, parameter: str) -> float:
    """Return what is true of a site; given labels count as clean where nothing else is known."""
    if all(case.clean_label is None for case in data.cases):
        return 0.0
    return true_offset(data) if parameter == OFFSET else 1 - complete_share(data)


def predicted_sites(row: Row, folder: Path, seed: int) -> list[PredictedSite]:
    """Make a row's data, audit them, and return the sites; what is finished is kept."""
    data, out = folder / "data", folder / "audit"
    if not data.exists():
        data.parent.mkdir(parents=True, exist_ok=True)
        row.make(data, seed)
    if not (out / "summary.json").exists():
        run_audit(out, jobs=JOBS, data=data, overrides={"seed": seed, **row.settings})
    channels = read_summary(out).added(BiasFindings)
    assert channels is not None
    sites = channels.channels[-1].sites
    result = []
    for site in read_federation(data).sites:
        loaded = load_site_data(data / site, folder / "cache", site=site)
        said = sites[site].parameters[ParameterKey(row.parameter, 1)]
        result.append(PredictedSite(site, truth(loaded, row.parameter), site_dice(loaded), said))
    return result


def figures(row: Row, runs: Sequence[Sequence[PredictedSite]]) -> dict[str, Any]:
    """Return the figures of a row over its seeds; None where the row cannot say."""
    ranks, quality, truths, scores, inside, zeros = [], [], [], [], [], []
    for sites in runs:
        known = [site for site in sites if site.found.estimate is not None and site.found.effect is not None]
        true = np.array([item.true for item in known])
        bad = np.array([site.true for site in sites])
        worst = bad if row.parameter == MISSING else np.abs(bad)
        truths += list(worst)
        scores += [0.0 if site.found.effect is None else abs(site.found.effect) for site in sites]
        if len(known) < 3:
            continue
        result = np.array([item.found.effect for item in known])
        if true.std() > CLEAN[row.parameter]:
            ranks.append(float(spearmanr(result, true).statistic))
            quality.append(float(spearmanr(-np.abs(result), [item.dice for item in known]).statistic))
        shared = float((result - true).mean())
        zeros.append(shared)
        from_reference = np.array([item.found.from_reference for item in known])
        inside += list((from_reference[:, 1] - shared <= true) & (true <= from_reference[:, 2] - shared))
    is_bad, is_clean = np.array(truths) >= BAD[row.parameter], np.array(truths) < CLEAN[row.parameter]
    found_sites = [site for sites in runs for site in sites]
    statuses = np.array([found_site.found.status for found_site in found_sites])
    accused = statuses == Status.CONFIRMED
    honest = np.array([found_site.site in row.honest for found_site in found_sites])
    return {
        "sites": len(found_sites),
        "rank correlation": _mean(ranks),
        "rank correlation with Dice": _mean(quality),
        "AUROC of bad sites": _area(is_bad[is_bad | is_clean], np.array(scores)[is_bad | is_clean]),
        "bad sites": int(is_bad.sum()),
        "bad sites confirmed": int((accused & is_bad).sum()),
        "clean sites": int(is_clean.sum()),
        "clean sites accused": int((accused & is_clean).sum()),
        "honest sites accused": int((accused & honest).sum()) if row.honest else None,
        "coverage": _mean(inside),
        "error of zero": _mean(zeros),
        "cannot tell": float((statuses == Status.UNKNOWN).mean()),
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _area(wrong: Any, scores: Any) -> float | None:
    return float(roc_auc_score(wrong, scores)) if 0 < wrong.sum() < len(wrong) else None


def main() -> None:
    """Run what is asked for, print a line per row and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for name in arguments.rows:
        row = ROWS[name]
        runs = [predicted_sites(row, arguments.out / f"{name}-{seed}", seed) for seed in arguments.seeds]
        result = {"what": row.what, "seeds": arguments.seeds, **figures(row, runs)}
        for seed, sites in zip(arguments.seeds, runs, strict=True):
            for one in sites:
                shown = one.found
                print(
                    f"  {name}-{seed} {one.site}: true {one.true:+.2f}, Dice {one.dice:.2f}, found {shown.effect}, "
                    f"{reason_in_words(shown)}"
                )
        print(json.dumps(result), flush=True)
        (arguments.out / f"{name}.json").write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
