"""How a site annotates, as a channel of few parameters: estimates from a model's predictions, and what they prove.

Plain functions on arrays. Objects are matched in :mod:`objects`; of one case follow the offset (:mod:`offset`), missing
and spurious objects (:mod:`detections`), misalignment (:mod:`shift`), thin parts and gaps (:mod:`protocol`); of all
cases of a site the confusion of classes (:mod:`confusion`). :mod:`site_estimates` sums them up with intervals over
patients (:mod:`bootstrap`) in figures that may leave the site (:mod:`estimate`); a site tests its own estimates by
injected errors (:mod:`error_injection`), and says where its images have :mod:`edges` and what they are like
(:mod:`image_features`). The server finds zero (:mod:`reference_level`, :mod:`two_levels`), tells which sites have
images of another kind (:mod:`domain_check`), and decides what is :mod:`confirmed`. What a model says of a site's
samples comes from :mod:`predicting`; what leaves the site is declared in :mod:`estimate`.
"""
