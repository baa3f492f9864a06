"""Why FedA³I has no groups of sites, in words."""

from ...custom.methods.feda3i.records import EstimateRecord, NoGroups

_FEWEST_SITES = 3
_REASONS = {
    NoGroups.TOO_FEW_SITES: "{sites} sites reported an estimate, at least {fewest} are needed.",
    NoGroups.EQUAL: "All sites report the same learning difficulty.",
    NoGroups.NOT_CONVERGED: "The Gaussian mixture did not converge.",
    NoGroups.ONE_IS_ENOUGH: "One Gaussian explains the sites as well as two (p = {p_value:z.3f}).",
    NoGroups.ONE_COMPONENT: "One component of the mixture explains every site best.",
    NoGroups.TEXT: "",
}


def no_groups_in_words(estimate: EstimateRecord) -> str:
    """Return why there are no groups; empty where there are."""
    if estimate.text or estimate.reason is None:
        return estimate.text
    return _REASONS[estimate.reason].format(
        sites=len(estimate.sites), fewest=_FEWEST_SITES, p_value=estimate.p_value or 0.0
    )
