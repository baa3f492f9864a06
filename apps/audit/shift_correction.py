"""A site's masks moved back as a whole, on request, by the shift that its images have shown; given files stay."""

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...custom.annotation_bias.given_annotations import GivenAnnotations
from ...custom.annotation_bias.profile.mask_shift import ShiftStatus
from ...custom.corrections.export import ExportedAnnotations, export_corrections
from ...custom.corrections.kinds import MaskShift
from ...custom.corrections.model import CaseCorrection, Corrections, Provenance
from ...custom.corrections.store import StoredCorrections
from ...custom.data.contained_paths import relative_name
from ...custom.data.datalist import REFERENCE, SECTIONS, TRAINING, VALIDATION, read_datalist
from ...custom.data.description import read_site_description
from ...custom.data.json_record import read_record
from ...custom.data.site_data import LoadedCase, count_cases, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.data.whole_files import new_folder
from ...transforms.errors import DataError
from ...transforms.strict_files import JsonObject, read_json
from ..wording.image_audit import why_not_moved
from ..wording.shell_words import shell_word
from .datalist_update import SHIFTED, prepare_update
from .image_audit import IMAGE_AUDIT_FILE, digest_of_masks
from .image_records import ImageAudit

_METHOD = "image_audit"


@dataclass(frozen=True)
class ShiftedMasks:
    """What was written.

    Attributes:
        site: the site.
        record: the content of ``provenance.json``.
        datalist: the datalist that counts now; None where no update was asked for.
    """

    site: str
    record: ExportedAnnotations
    datalist: Path | None


@dataclass(frozen=True)
class _OwnMasks:
    """What the site has annotated itself.

    Attributes:
        cases: image and mask of each.
        in_use: the masks among them that are in use; others a review has replaced or kept.
    """

    cases: tuple[tuple[Path, Path], ...]
    in_use: frozenset[Path]


def correct_shift(folder: Path, out: Path, *, site: str | None = None, update_datalist: bool = False) -> ShiftedMasks:
    """Write the masks of a site moved back by the shift that an audit by images has found.

    The masks for training and validation move, all classes of them alike. What a review has settled stays as it is; of
    such a case the mask that the site had given moves, which goes on to say how the site annotates. Nothing is written
    unless everything can be. Masks other than those that the audit has measured are not moved: a shift is never
    corrected twice.

    Args:
        folder: of the audit.
        out: folder of the new files, absent or empty.
        site: whose; None for the only one of the audit.
        update_datalist: put a copy of the site's datalist in force, with the new masks; see :mod:`.datalist_update`.

    Raises:
        DataError: if there is no such audit or site, the shift cannot be corrected, masks have changed since, or a file
            cannot be used.
    """
    audit = read_image_audit(folder)
    name = _chosen(audit, folder, site)
    shift, data = audit.mask_shifts[name], Path(audit.measured[name].data)
    if shift.status is not ShiftStatus.CORRECTABLE:
        raise DataError(f"Site {name}: {why_not_moved(shift, audit.unit)} Nothing was written.")
    if digest_of_masks(data) != audit.measured[name].masks_sha256:
        raise DataError(
            f"Site {name}: the masks of {data} are not those that the audit has measured; they were moved back "
            f"already, or changed otherwise. Nothing was written. Audit them again: "
            f"fedannot audit --data {shell_word(data)} --profile image --out {shell_word(folder)}"
        )
    update = prepare_update(data, out, SHIFTED) if update_datalist else None
    masks = _own_masks(data, name)
    with new_folder(out) as unfinished:
        stored = StoredCorrections(folder, _corrections(name, data, shift.shift, masks))
        record = export_corrections(unfinished, stored)
        if record.failed:
            label, reason = record.failed[0]
            raise DataError(f"{label}: cannot be moved back: {reason} Nothing was written.")
    file = None
    if update is not None:
        file = update.put_in_force(_updated_content(update.before, data, out, record, masks), out)
    return ShiftedMasks(name, record, file)


def read_image_audit(folder: Path) -> ImageAudit:
    """Read the audit by images of a folder.

    Raises:
        DataError: if there is none, or it cannot be read.
    """
    audit = read_record(folder / IMAGE_AUDIT_FILE, ImageAudit)
    if audit is None:
        raise DataError(
            f"{folder}: found no {IMAGE_AUDIT_FILE}; expected the output folder of: fedannot audit --profile image"
        )
    return audit


def _chosen(audit: ImageAudit, folder: Path, site: str | None) -> str:
    sites = [*audit.mask_shifts]
    if not sites:
        raise DataError(
            f"{folder}: its audit was made by an earlier version, and does not say of which masks. Audit them again."
        )
    if site is None and len(sites) > 1:
        raise DataError(f"{folder}: found an audit of {', '.join(sites)}; say which with --site.")
    if site is not None and site not in sites:
        raise DataError(f"{folder}: found no audit of site {site!r}; expected one of: {', '.join(sites)}.")
    return sites[0] if site is None else site


def _own_masks(data: Path, site: str) -> _OwnMasks:
    def cases_of(section: str) -> tuple[LoadedCase, ...]:
        if not count_cases(data, section):
            return ()
        return load_site_data(data, participant_store(), section=section, site=site).cases

    reviewed = cases_of(REFERENCE)
    cases: dict[Path, Path] = {}
    in_use = set()
    for section in (TRAINING, VALIDATION):
        given = GivenAnnotations.of(cases_of(section), reviewed)
        for case, is_settled in zip(given.training, given.settled, strict=True):
            if not is_settled and case.files is not None and isinstance(case.files.label, Path):
                cases[case.files.label.resolve()] = case.files.image
                in_use.add(case.files.label.resolve())
    datalist = read_datalist(data / read_site_description(data).datalist)
    for files in itertools.chain.from_iterable(datalist.cases.values()):
        if isinstance(files.given_label, Path):
            cases[files.given_label.resolve()] = files.image
    if not in_use:
        raise DataError(f"Site {site}: reviewers have settled every mask; none is left to move. Nothing was written.")
    return _OwnMasks(tuple((image, label) for label, image in cases.items()), frozenset(in_use))


def _corrections(site: str, data: Path, shift: tuple[float, ...], masks: _OwnMasks) -> Corrections:
    start = data.resolve()
    return Corrections(
        site=site,
        data=str(start),
        provenance=Provenance(method=_METHOD, round_number=0, made=datetime.now(UTC).isoformat(timespec="seconds")),
        corrections=(MaskShift(shift=shift),),
        cases=tuple(
            CaseCorrection(image=relative_name(image.resolve(), start), label=relative_name(label, start))
            for image, label in masks.cases
        ),
    )


def _updated_content(
    datalist: Path, data: Path, out: Path, record: ExportedAnnotations, masks: _OwnMasks
) -> JsonObject:
    """The datalist with the new masks, and with the moved ones behind reviewed masks."""
    folder = datalist.parent
    inside = out.resolve().relative_to(folder.resolve()).as_posix()
    moved = {(data / item.given).resolve(): f"{inside}/{item.file}" for item in record.annotations}
    content: JsonObject = read_json(datalist, "a datalist", any_number=True)
    for section in SECTIONS:
        for item in content.get(section, []):
            if not isinstance(item, dict):
                continue
            label, given = ((folder / str(item.get(key))).resolve() for key in ("label", "given_label"))
            if section in (TRAINING, VALIDATION) and label in masks.in_use and label in moved:
                item["label"] = moved[label]
            if "given_label" in item and given in moved:
                item["given_label"] = moved[given]
    return content
