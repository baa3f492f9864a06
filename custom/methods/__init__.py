"""The methods: a folder for each, with its settings, what it sends, its halves at server and site, its formulas."""

from ..interface.declaration import Method
from . import (
    audit,
    audit_classification,
    auto,
    auto_classification,
    decoupled,
    ditto,
    feda3i,
    fedavg,
    fedbn,
    fedcurv,
    fedgsca,
    fedhac,
    fedia,
    fedmix,
    fednoro,
    fedrep,
    fedselect,
    fingerprint,
    iop_fl,
    single_site,
)

# One line for each; other packages add theirs by the entry points of the group `fedannot.methods`.
METHODS: tuple[Method, ...] = (
    *fedavg.METHODS,
    auto.METHOD,
    feda3i.METHOD,
    fedia.METHOD,
    fedhac.METHOD,
    fedcurv.METHOD,
    decoupled.METHOD,
    fedrep.METHOD,
    ditto.METHOD,
    fedbn.METHOD,
    iop_fl.METHOD,
    fedmix.METHOD,
    *fednoro.METHODS,
    *fedselect.METHODS,
    single_site.METHOD,
    fedgsca.METHOD,
    auto_classification.METHOD,
    audit.METHOD,
    audit_classification.METHOD,
    fingerprint.METHOD,
)
