"""Thresholds of the estimates of how sites annotate, in one place, with the data on which they were chosen."""

from pydantic import Field

from ..strict_model import SettingsModel


class BiasThresholds(SettingsModel):
    """Thresholds of the estimates of how sites annotate; each description says on which data it was chosen."""

    group_level_with_edges: float = Field(
        default=0.3,
        description="Level of the test for two groups where the images' edges lie between them: evidence of "
        "their own. Set on the embedded phantom of `jobs/auto`.",
    )
    single_site_margin: float = Field(
        default=0.1,
        description="By this fraction of `image_boundary_error` half-way to a single site has to be nearer to the "
        "images' edges than the median is. Set by four federations of seeds 100 and 101, two of "
        "BUSI and two with one bad site; it just divides these.",
    )
    min_sites_of_median: int = Field(
        default=3,
        description="A median of fewer sites is no evidence. Chosen by hand; not measured.",
    )
    max_claim_of_reviewed: float = Field(
        default=3.0,
        description="So many times the patients of the median site count at most of one site's reviewed ones. "
        "Chosen by hand; not measured.",
    )
    max_claim_of_samples: float = Field(
        default=3.0,
        description="So many times the samples of the median site count at most of one site's, where it is decided "
        "which boundary bias is tolerated. As above; not measured.",
    )
    reviewed_resolution: float = Field(
        default=0.2,
        description="Reviewed contours are no more precise than this, in pixels, however alike few are. Chosen "
        "by hand; not measured.",
    )
    median_draws: int = Field(
        default=999,
        description="Draws for the standard deviation of a median. Chosen by hand; not measured.",
    )
    fedavg_quantiles: tuple[float, float] = Field(
        default=(0.4, 0.6),
        description="Weighted quantiles between which federated averaging's contour is: the median, and as "
        "far to both sides as sizes and strengths of sites may shift it. Chosen by hand; not "
        "measured.",
    )
    interval_level: float = Field(
        default=0.9,
        description="Of the intervals of all estimates. Chosen by hand; not measured.",
    )
    bootstrap_draws: int = Field(
        default=999,
        description="Draws of patients for an interval. Chosen by hand; not measured.",
    )
    min_seen_of_class: float = Field(
        default=0.1,
        description="A model knows a class that so many samples look like for each that is given as it. "
        "Chosen by hand; not measured.",
    )
    max_spurious_probability: float = Field(
        default=0.2,
        description="An annotated object counts as spurious where the model gives the class less than this in "
        "it and around it. Chosen by hand; not measured.",
    )
    spurious_radius: int = Field(
        default=2,
        description="How far around an object that is looked for, in pixels. Chosen by hand; not measured.",
    )
    confident_quantile: float = Field(
        default=0.25,
        description="Three in four annotated objects are predicted at least so surely, and objects that are "
        "not annotated count from there on. The rule came after a false finding on BUSI, clean "
        "labels, seed 0.",
    )
    max_part_of_other_class: float = Field(
        default=0.5,
        description="An object of which more is annotated as other classes has another class there, and is "
        "not missing. Chosen by hand; not measured.",
    )
    test_level: float = Field(
        default=0.05,
        description="Of the tests of all sites and classes, for each kind of parameter, where a job sets none. Chosen "
        "by hand; not measured.",
    )
    min_auroc: float = Field(
        default=0.7,
        description="An estimate of missed objects or confused classes cannot tell where injected errors are "
        "distinguished with a smaller AUROC. Chosen on seeds 100 and 101 of the generated lesions and BUSI.",
    )
    slopes: tuple[float, float] = Field(
        default=(0.6, 1.4),
        description="Nor can one that shows so many times the injected error, or less or more. Chosen on "
        "seeds 100 and 101 of the generated lesions and BUSI.",
    )
    domain_level: float = Field(
        default=0.1,
        description="Fraction of pairs of sites with images of one kind that may be distinguished. A site that "
        "is distinguished from one other site is mostly distinguished from none of the rest. Chosen on generated "
        "lesions, BUSI, blood cells and hippocampus; `bubil-cells` was run once.",
    )
    min_domain_auroc: float = Field(
        default=0.7,
        description="Two kinds of images that a feature tells apart no better than this are one kind, however "
        "sure their difference. Chosen on generated lesions, BUSI, blood cells and hippocampus; "
        "`bubil-cells` was run once.",
    )
    min_feature_deviation: float = Field(
        default=0.02,
        description="Features are logarithms, fractions and correlations: what differs by less is the same. "
        "Chosen on generated lesions, BUSI, blood cells and hippocampus; `bubil-cells` was run "
        "once.",
    )
    max_background_doubt: float = Field(
        default=0.05,
        description="Where the model gives all classes together less, a pixel is background beyond doubt. "
        "Chosen by hand; not measured.",
    )
    known_offsets_with_noise: tuple[float, ...] = Field(
        default=(1.0, 2.0),
        description="Offsets whose AUROC follows from a site's noisy estimate, in pixels: the sizes of "
        "`injected_offsets`.",
    )
    min_sum_over_noise: float = Field(
        default=3.0,
        description="A sum below so many standard deviations of its noise says nothing. Chosen by hand; not measured.",
    )
    min_matching_iou: float = Field(
        default=0.1,
        description="From this intersection over union on an annotated and a predicted object are one. Chosen "
        "by hand; not measured.",
    )
    injected_fraction: float = Field(
        default=0.2,
        description="Fraction of the patients into whose copies errors are injected. Chosen by hand; not measured.",
    )
    min_injected_patients: int = Field(
        default=10,
        description="They are no fewer where there are so many: of fewer patients the AUROC is an accident. "
        "Chosen by hand; not measured.",
    )
    injected_offsets: tuple[float, ...] = Field(
        default=(-2.0, -1.0, 1.0, 2.0),
        description="Offsets that are injected, in pixels. Chosen by hand; not measured.",
    )
    injected_label_noise: float = Field(
        default=0.2,
        description="Fraction of the samples into which wrong classes are injected. Chosen by hand; not measured.",
    )
    min_rise_of_disagreement: float = Field(
        default=0.1,
        description="Where labels agree with the model hardly more than by chance, changing some changes "
        "nothing that could be seen. Chosen by hand; not measured.",
    )
    draws_of_missing: int = Field(
        default=5,
        description="How often objects are left out at random: which ones decides much where there are few. "
        "Raised from 1 after one site of 1/3/5/7 tenths, seed 0; seeds 100 and 101 had the same "
        "Dice with both.",
    )
    min_injected_samples: int = Field(
        default=10,
        description="With fewer samples the AUROC is an accident. Chosen by hand; not measured.",
    )
    draws_of_labels: int = Field(
        default=20,
        description="How often classes are changed at random. Chosen by hand; not measured.",
    )
    min_sites_of_groups: int = Field(
        default=4,
        description="With fewer sites two groups are not looked for. Chosen by hand; not measured.",
    )
    null_draws: int = Field(
        default=999,
        description="Draws of one group, against which two are tested. Chosen by hand; not measured.",
    )
    min_patients_of_annotator: int = Field(
        default=5,
        description="Of fewer patients it is not said whether an annotator deviates, and nothing of the annotator "
        "leaves the site. Chosen by hand; not measured.",
    )
    group_level: float = Field(
        default=0.05,
        description="Fraction of federations that annotate alike and may pass for two groups, where a job "
        "sets none: a larger one finds two groups more often. Chosen by hand; not measured.",
    )


THRESHOLDS = BiasThresholds()
