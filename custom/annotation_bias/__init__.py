"""How a site annotates, by few parameters: estimates from a model's predictions, and tests of these estimates.

Plain functions on arrays. :mod:`predicted_samples` yields the model's predictions, :mod:`objects` matches objects. A
case gives its boundary bias (:mod:`boundary_bias`), missed and spurious objects (:mod:`detections`), misalignment
(:mod:`shift`), thin parts and gaps (:mod:`protocol`). All cases of a site give the confusion of classes
(:mod:`confusion`). :mod:`site_estimates` adds intervals over patients (:mod:`bootstrap`). :mod:`estimate` declares the
numbers that leave the site. A site measures its own sensitivity with injected errors (:mod:`error_injection`), and
reports the image boundary (:mod:`image_boundary`) and image features (:mod:`image_features`). The server chooses the
reference level (:mod:`reference_level`, :mod:`two_levels`), finds sites out of domain (:mod:`domain_check`), and tests
all effects (:mod:`significance`). A later estimate revises what was confirmed (:mod:`hysteresis`).
"""
