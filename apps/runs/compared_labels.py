"""Whether all arms of a comparison are scored against the same labels, where cases have several annotations."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...custom.consensus_rule import ConsensusKind, ConsensusRule
from ...custom.data.datalist import TESTING, VALIDATION, Case, read_datalist
from ...custom.data.decided_labels import LABEL_MADE
from ...custom.data.description import DESCRIPTION_FILE, read_site_description
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.settings import RunSettings
from .job import JobError

# By these rules scores are of the majority.
_AS_MAJORITY = (ConsensusKind.RANDOM_PER_EPOCH, ConsensusKind.SOFT)


def check_same_labels(of_arms: Mapping[str, RunSettings], federations: Sequence[Path | None]) -> None:
    """Check that rules for several annotations that differ between arms decide no label that is scored.

    Args:
        of_arms: settings by arm.
        federations: of each seed; None for generated images.

    Raises:
        JobError: if they decide any: each arm would be scored by what it was trained on.
        DataError: if data cannot be read.
    """
    rules = {name: _scored_rule(settings.training.consensus) for name, settings in of_arms.items()}
    if len(set(rules.values())) < 2:
        return
    has_own = any(isinstance(settings, PersonalSettings) for settings in of_arms.values())
    for federation in dict.fromkeys(folder for folder in federations if folder is not None):
        for folder, name in _scored_lists(federation, has_own=has_own):
            cases = read_datalist(folder / read_site_description(folder).datalist).section(name)
            if undecided := sum(_is_decided_by_rule(case, name) for case in cases):
                shown = ", ".join(f"{arm}: {rule}" for arm, rule in rules.items())
                raise JobError(
                    f"{folder}: found {undecided} of {len(cases)} cases of the list {name!r} whose label follows from "
                    f"several annotations by 'training.consensus', which differs between arms ({shown}). Each would "
                    f"be scored against labels of its own; expected a label of each case. {LABEL_MADE} makes them."
                )


def _scored_rule(rule: str | None) -> str:
    """The rule by which scored labels are made."""
    if rule is None:
        return "none"
    is_as_majority = ConsensusRule.parse(rule).kind in _AS_MAJORITY
    return ConsensusKind.MAJORITY.value if is_as_majority else rule


def _scored_lists(federation: Path, *, has_own: bool) -> Iterator[tuple[Path, str]]:
    """The folders and lists on which arms are compared: of the test set; without one, or with sites' models, theirs."""
    test = federation / TEST_FOLDER
    has_test = (test / DESCRIPTION_FILE).is_file()
    if has_test:
        yield test, TESTING
    if has_own or not has_test:
        for site in read_federation(federation).sites:
            yield federation / site, TESTING
            yield federation / site, VALIDATION


def _is_decided_by_rule(case: Case, section: str) -> bool:
    return case.is_undecided or (section == VALIDATION and bool(case.annotations) and not case.is_reviewed)
