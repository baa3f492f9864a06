"""A data manager's way from raw folders to the next audit, in commands and in Chromium, with the time of each step.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/audit_walk.py --out DIR --seed 0

Breast ultrasound with errors of all kinds in a fraction of the masks lies in raw folders of three hospitals. They are
imported, checked and audited. A scripted reader who knows the right masks looks at the first cases of one site's list
on the served page: she accepts a suggestion that is nearer to the right mask, keeps a right mask, and corrects the
others in another program. Then the decisions are applied, and the site is audited again.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from erroneous_federations import PACKS, TRUTH_FILE, put_errors
from PIL import Image
from real_federations import real_data

from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.found import FoundAudit, find_audit
from fedannot.apps.importing.folders import read_folders
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.audit.case_list import listed_cases
from fedannot.custom.audit.decisions import read_decisions
from fedannot.custom.audit.findings import AuditedCase
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.data.description import read_site_description
from fedannot.transforms.strict_files import read_json

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "apps" / "audit"))

SITE, FIRST = "hospital-1", 20
SETTINGS = ("rounds=6", "training.local_epochs=5")


class Times:
    """Seconds of each step, and what was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[tuple[str, str, float]] = []

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[None]:
        """Measure a step."""
        started = time.perf_counter()
        yield
        self.rows.append((name, what, time.perf_counter() - started))
        print(f"{name}: {self.rows[-1][2]:.1f} s", flush=True)

    def command(self, name: str, *arguments: str) -> None:
        """Run a command of fedannot and measure it."""
        with self.step(name, " ".join(arguments[:2])):
            program = shutil.which("fedannot") or "fedannot"
            # In the output folder: contact sheets are written where a command is called.
            subprocess.run([program, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=self.folder)


def write_raw_folders(raw: Path, work: Path, seed: int) -> dict[str, dict[str, str]]:
    """Write images and masks of three hospitals as people have them; the right masks lie in ``right``.

    Returns:
        Hospital → image → kind of its error.
    """
    pack = real_data() / "busi-breast-us" / "seg"
    dataset = read_folders(pack / "images", pack / "labels", include=["benign_*", "malignant_*"])
    options = ImportOptions(keys={"size": (128, 128)})
    write_imported_federation([dataset], work, SiteChoice(3), options, test_share=0, seed=seed)
    for number in (1, 2, 3):
        site = work / f"site-{number}"
        shutil.copytree(site / "labels", raw / "right" / f"hospital-{number}")
    put_errors(work, PACKS["busi"], 0.15, seed)
    for number in (1, 2, 3):
        site, name = work / f"site-{number}", f"hospital-{number}"
        for item in read_json(site / "datalist.json", "a datalist")[TRAINING]:
            for kind in ("image", "label"):
                file = site / item[kind]
                target = raw / f"{kind}s" / name / f"{Path(item['image']).stem}{file.suffix}"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    errors = read_json(work / TRUTH_FILE, "errors")
    return {
        f"hospital-{number}": {Path(image).stem: kind for image, kind in errors.get(f"site-{number}", {}).items()}
        for number in (1, 2, 3)
    }


def values(file: Path) -> np.ndarray:
    """Return the foreground of a mask file."""
    return np.array(Image.open(file)) > 0


def dice(first: np.ndarray, second: np.ndarray) -> float:
    """Return Dice of two masks; 1 where both are empty."""
    total = int(first.sum() + second.sum())
    return 2 * int((first & second).sum()) / total if total else 1.0


def mean_dice(site: Path, raw: Path) -> float:
    """Return the mean Dice of the masks that a site trains on and the right ones."""
    description = read_site_description(site)
    items = read_json(site / description.datalist, "a datalist")
    pairs = [(site / item["label"], right_of(raw, item["image"])) for item in items[TRAINING]]
    return statistics.fmean(dice(values(given), values(right)) for given, right in pairs)


def right_of(raw: Path, image: str) -> Path:
    """Return the file of the right mask of an image of the reviewed hospital."""
    return next((raw / "right" / SITE).glob(f"{Path(image).stem}.*"))


def choices(found: FoundAudit, cases: list[AuditedCase], raw: Path) -> dict[str, str]:
    """Return what the reader presses, by image: accept, keep, or later where she draws in another program."""
    reader, result = CaseReader(found), {}
    for case in cases:
        right = values(right_of(raw, case.image))
        given = dice(values(reader.data / case.label), right)
        read = reader.read(case)
        small = np.array(Image.fromarray(right).resize(read.given.shape[:0:-1], Image.Resampling.NEAREST))
        # Of the finding that is shown first.
        suggested = read.suggestions.get(case.findings[0].id)
        best = 0.0 if suggested is None else dice(suggested[0] > 0, small)
        result[case.image] = "k" if given > 0.98 else "a" if best > max(given, 0.8) else "l"
    return result


def review(found: FoundAudit, wanted: dict[str, str], findings: int, profile: Path) -> None:
    """Decide about the first findings of the list in Chromium, each by a key."""
    from support.chromium import chromium
    from test_pages_in_a_browser import is_drawn, open_page, press, reviewing, text_of, wait_for

    names = {Path(image).name: key for image, key in wanted.items()}
    with chromium(profile) as browser, reviewing(found) as (_, address):
        open_page(browser, address)
        for number in range(1, findings + 1):
            wait_for(lambda: is_drawn(browser))
            # The case before it may still be named.
            time.sleep(0.2)
            press(browser, names[text_of(browser, "case-title")])
            wait_for(lambda count=number: len(read_decisions(found.folder, found.site).decisions) == count)
            wait_for(lambda: "stored" in text_of(browser, "status"))
            wait_for(lambda: browser.execute_script("return !document.getElementById('keep').disabled"))


def edit(exported: Path, edited: Path, found: FoundAudit, cases: list[AuditedCase], raw: Path) -> None:
    """Write the right masks of some cases as another program saves them, with the values of the given ones."""
    for case in cases:
        given = next(exported.rglob(f"given/**/{case.label}"))
        whole = np.array(Image.open(given))
        top = int(whole.max()) or int(values_of(found))
        target = edited / case.label
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.where(values(right_of(raw, case.image)), top, 0).astype(whole.dtype)).save(target)


def values_of(found: FoundAudit) -> int:
    """Return the value of the lesion in the masks of the site."""
    labels = read_site_description(Path(found.audit.data)).labels
    return next(value for value, number in labels.items() if number == 1)


def main() -> None:
    """Walk the way and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    out: Path = chosen.out.resolve()
    raw, data, audit = (out / name for name in ("raw", "data", "audit"))
    with tempfile.TemporaryDirectory() as work:
        errors = write_raw_folders(raw, Path(work) / "federation", chosen.seed)
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    times = Times(out)
    times.command(
        *("import", "data", "import", "--images", str(raw / "images"), "--labels", str(raw / "labels")),
        *("--source", "^([^/]+)/", "--sites", "by-source", "--test", "0", "--size", "128,128", "--out", str(data)),
    )
    times.command("check", "data", "check", str(data))
    times.command("audit by images", "audit", "--profile", "image", "--data", str(data), "--out", str(out / "images"))
    times.command("audit", "audit", "--data", str(data), *settings, "--out", str(audit))
    found = find_audit(audit, SITE)
    listed = listed_cases(found.audit)
    cases = list(listed[:FIRST])
    wanted = choices(found, cases, raw)
    findings = sum(len(case.findings) for case in cases)
    with times.step("decide", "audit review"):
        review(found, wanted, findings, out / "profile")
    times.command("export", "audit", "export", str(audit), "--site", SITE, "--all", "--out", str(out / "exported"))
    edit(out / "exported", out / "edited", found, [case for case in cases if wanted[case.image] == "l"], raw)
    before = mean_dice(data / SITE, raw)
    times.command(
        *("update", "audit", "apply", str(audit), "--site", SITE, "--edited", str(out / "edited")),
        *("--out", str(data / SITE / "reviewed"), "--update-datalist"),
    )
    after = mean_dice(data / SITE, raw)
    times.command("next audit", "audit", "--data", str(data), *settings, "--out", str(out / "next"))
    wrong = errors[SITE]
    seen = [case for case in cases if Path(case.image).stem in wrong]
    kinds = Counter(wanted.values())
    print(f"\n{len(listed)} cases in {SITE}, {len(wrong)} with an error; {len(seen)} of them among the first {FIRST}.")
    print(f"Decided: {kinds['a']} suggestions accepted, {kinds['k']} masks kept, {kinds['l']} drawn elsewhere.")
    print(f"Mean Dice of the training masks and the right ones: {before:.4f} before, {after:.4f} after.")
    again = find_audit(out / "next", SITE)
    first = listed_cases(again.audit)[:10]
    print(
        f"Errors left: {len(wrong) - len(seen)}; among the first 10 of the next list: "
        f"{sum(Path(case.image).stem in wrong and case.image not in wanted for case in first)}."
    )
    print(
        f"Of the {len(seen)} mended ones are among them: "
        f"{sum(Path(case.image).stem in wrong and case.image in wanted for case in first)}."
    )
    print("\n| step | command | seconds |\n|---|---|---|")
    for name, what, seconds in times.rows:
        print(f"| {name} | `{what}` | {seconds:.0f} |")


if __name__ == "__main__":
    main()
