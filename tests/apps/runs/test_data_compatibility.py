"""Data that do not fit a job are refused in one sentence, with the jobs or the settings that fit."""

import re
from pathlib import Path

import pytest

from fedannot.apps.runs.data_compatibility import fitting_jobs, read_descriptions, settings_for_data
from fedannot.apps.runs.job import Job
from fedannot.custom.compatibility import AnnotationGapError, DataMismatchError, check_site
from fedannot.custom.data.description import (
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
    write_site_description,
)
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.transforms.errors import DataError

JOBS = Path(__file__).parents[3] / "jobs"
LESION = {"classes": ("lesion",), "labels": {0: 0, 1: 1}}
TWO = {"classes": ("organ", "lesion"), "labels": {0: 0, 1: 1, 2: 2}}
PICTURE = ImageDescription(channels=1, size=(64, 64), **LESION)
TWO_CLASSES = ImageDescription(channels=1, size=(64, 64), **TWO)
COLOUR = ImageDescription(channels=3, size=(64, 64), **LESION)
SLICES = SliceDescription(size=(64, 64), **LESION)
VOLUME = VolumeDescription(**LESION)
CLASSES = ClassificationDescription(channels=1, size=(32, 32), classes=("a", "b", "c"))
PATCH = [32, 32, 32]


@pytest.fixture
def federation(tmp_path):
    """Return a function that writes descriptions of sites, and of a test set."""

    def make(*sites, test=None):
        names = [f"site-{number}" for number in range(1, len(sites) + 1)]
        folders = dict(zip(names, sites, strict=True)) | ({} if test is None else {"test": test})
        for name, description in folders.items():
            (tmp_path / name).mkdir()
            write_site_description(tmp_path / name, description)
        write_federation(tmp_path, FederationDescription(name="made", sites=names))
        return read_descriptions(tmp_path)

    return make


def fit(job, described, **changes):
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    return settings_for_data(Job.open(JOBS / job), changes, described)


@pytest.mark.parametrize(
    ("job", "description", "held", "task", "needs", "fitting"),
    [
        ("fedgsca", PICTURE, "2D images with masks", "classification", "images with one class each", "fedaaai, fedavg"),
        ("fedgsca", SLICES, "slices of volumes with masks", "classification", "images with one class each", "fedia"),
        (
            "fedavg",
            CLASSES,
            "images with one class each",
            "segmentation",
            "images or volumes with masks",
            "fedavg_classification, fedcorr_classification",
        ),
    ],
)
@pytest.mark.parametrize("where", ["site-1", "site-2", "test"])
def test_data_for_another_task_name_the_folder_and_the_jobs_that_fit(
    where, job, description, held, task, needs, fitting, federation, tmp_path
):
    right = PICTURE if task == "segmentation" else CLASSES
    described = federation(
        *(description if where == f"site-{number}" else right for number in (1, 2)),
        test=description if where == "test" else right,
    )
    text = f"{tmp_path / where} holds {held}, but {JOBS / job} is for {task} and needs {needs}; jobs that fit, in "
    with pytest.raises(DataMismatchError, match=rf"^{re.escape(text)}.*jobs: .*{fitting}.*\.$"):
        fit(job, described)


def test_where_no_job_lies_beside_the_task_is_named(federation, tmp_path):
    alone = Job.open(JOBS / "fedavg").copy_with({}, tmp_path / "alone" / "job")
    with pytest.raises(DataMismatchError, match=r"; it takes a job with task = classification\.$"):
        settings_for_data(alone, {}, federation(CLASSES))


@pytest.mark.parametrize(
    ("description", "changes", "text"),
    [
        (
            VOLUME,
            {},
            "holds whole volumes with masks, but {job} names no patch of them to train on; add --set "
            "training.patch=[96,96,64], or another patch; `fedannot plan` suggests one.",
        ),
        (
            PICTURE,
            {"training__patch": PATCH},
            "holds 2D images with masks, but training.patch is [32, 32, 32], for patches of whole volumes; leave it "
            "out.",
        ),
        (
            SLICES,
            {"network__spatial_dims": 3, "training__patch": PATCH},
            "holds slices of volumes with masks, which have 2 spatial dimensions, but network.spatial_dims is set to 3;"
            " leave it out, and training.patch, too.",
        ),
        (
            VOLUME,
            {"network__spatial_dims": 2},
            "holds whole volumes with masks, which have 3 spatial dimensions, but network.spatial_dims is set to 2; "
            "leave it out.",
        ),
    ],
)
def test_volumes_and_patches_go_together(description, changes, text, federation, tmp_path):
    text = f"{tmp_path / 'site-1'} " + text.format(job=JOBS / "fedavg")
    with pytest.raises(DataMismatchError, match=f"^{re.escape(text)}$"):
        fit("fedavg", federation(description), **changes)


def test_a_jobs_own_patch_can_be_rolled_back(federation, tmp_path):
    volumes = Job.open(JOBS / "fedavg").copy_with(
        {"network.spatial_dims": 3, "training.patch": PATCH}, tmp_path / "job"
    )
    described = federation(PICTURE)
    with pytest.raises(DataMismatchError, match=r"for patches of whole volumes; add --set training\.patch=null\.$"):
        settings_for_data(volumes, {}, described)
    changes = settings_for_data(volumes, {"training.patch": None}, described)
    assert volumes.settings_with(changes).network.spatial_dims == 2


def test_the_network_follows_from_the_data(federation):
    described = federation(VOLUME, VOLUME)
    assert fit("fedavg", described, training__patch=PATCH, rounds=3) == {
        "network.in_channels": 1,
        "network.num_classes": 1,
        "network.spatial_dims": 3,
        "training.patch": PATCH,
        "rounds": 3,
    }


def test_a_network_that_fits_no_site_is_refused(federation, tmp_path):
    text = f"{tmp_path / 'site-1' / 'data.yaml'} describes 1 channels and 2 foreground classes in 2 spatial dimensions"
    with pytest.raises(
        DataMismatchError, match=rf"^{re.escape(text)}, but .* with --set network\.num_classes=2, or write"
    ):
        fit("fedavg", federation(TWO_CLASSES, TWO_CLASSES), network__num_classes=1)


def test_a_single_site_of_other_classes_is_left_to_the_run(federation):
    assert fit("fedavg", federation(PICTURE, TWO_CLASSES, test=PICTURE))["network.num_classes"] == 1


def test_a_test_set_of_other_channels_is_refused(federation, tmp_path):
    with pytest.raises(DataMismatchError, match=rf"^{re.escape(str(tmp_path))}/test/data\.yaml describes 3 channels"):
        fit("fedavg", federation(PICTURE, PICTURE, test=COLOUR))


def test_a_phantom_of_another_task_is_refused():
    with pytest.raises(
        DataMismatchError, match=r"^the embedded phantom holds images with one class each, but .*fedavg is"
    ):
        fit("fedavg", None, embedded__task="cells2d", embedded__noise=None)


def test_a_phantom_whose_network_does_not_fit_is_refused():
    with pytest.raises(DataMismatchError, match=r"^the embedded phantom describes 1 channels and 1 foreground"):
        fit("fedavg", None, network__num_classes=2)


def test_descriptions_that_cannot_be_read(federation, tmp_path):
    federation(PICTURE, PICTURE, test=PICTURE)
    for name, is_needed in (("site-2", False), ("test", True), ("site-1", True)):
        (tmp_path / name / "data.yaml").write_text("pipelin: image2d\n")
        if is_needed:
            with pytest.raises(DataError, match=f"{name}/data.yaml"):
                read_descriptions(tmp_path)
        else:
            assert [folder.name for folder in read_descriptions(tmp_path)] == ["site-1", "test"]


def test_jobs_of_a_task():
    result = [job.name for job in fitting_jobs(JOBS, "classification")]
    expected = [
        "audit_classification",
        "auto_classification",
        "elr_classification",
        "fedavg_classification",
        "fedcorr_classification",
        "fedfixer",
        "fedgp",
        "fedgsca",
        "fednoro_classification",
        "fedrobust_classification",
        "fedselect_classification",
    ]
    assert result == expected
    assert fitting_jobs(JOBS / "absent", "classification") == []


IGNORED = TWO_CLASSES.model_copy(update={"ignore": (255,)})
PARTIAL = TWO_CLASSES.model_copy(update={"annotated_classes": ("organ",), "labels": {0: 0, 1: 1}})


def test_jobs_that_cannot_leave_pixels_out_do_not_fit_data_with_ignored_ones():
    without_gaps, ignored, partial = (
        [job.name for job in fitting_jobs(JOBS, "segmentation", [TWO_CLASSES, other])]
        for other in (TWO_CLASSES, IGNORED, PARTIAL)
    )
    assert "audit" in without_gaps
    assert [name for name in without_gaps if name not in ignored] == ["audit"]
    assert partial == ["fedavg", "fingerprint"]


FOR_MASKS = [job.name for job in fitting_jobs(JOBS, "segmentation") if "swarm" not in job.name]


def test_a_method_that_cannot_leave_pixels_out_refuses_a_site_with_ignored_ones(federation, tmp_path):
    with pytest.raises(
        AnnotationGapError, match=re.escape(f"{tmp_path / 'site-2' / 'data.yaml'} has the key 'ignore'")
    ):
        fit("audit", federation(TWO_CLASSES, IGNORED))


@pytest.mark.parametrize("job", sorted(set(FOR_MASKS) - {"fedavg", "fingerprint"}))
def test_a_method_without_marginal_loss_refuses_a_site_that_does_not_annotate_a_class(federation, job):
    with pytest.raises(
        AnnotationGapError,
        match=r"site-1/data\.yaml has the key 'annotated_classes', but the method '\w+' cannot use classes that a site "
        r"does not annotate: they would count as background\. Methods that can: fedavg, fingerprint\.$",
    ):
        fit(job, federation(PARTIAL, TWO_CLASSES))


@pytest.mark.parametrize("job", sorted(set(FOR_MASKS) - {"audit"}))
def test_methods_that_leave_ignored_pixels_out_take_them(federation, job):
    assert fit(job, federation(TWO_CLASSES, IGNORED))["network.num_classes"] == 2


def test_federated_averaging_takes_sites_that_do_not_annotate_a_class(federation):
    assert fit("fedavg", federation(PARTIAL, IGNORED))["network.num_classes"] == 2


def test_a_test_set_may_have_gaps_under_any_method(federation):
    assert fit("auto", federation(TWO_CLASSES, test=IGNORED))["network.num_classes"] == 2


def test_a_site_refuses_itself_before_it_trains(federation, tmp_path):
    federation(PARTIAL, IGNORED)
    audit = read_job_settings({"method": "audit", "network": {"num_classes": 2}})
    for site, key in (("site-1", "annotated_classes"), ("site-2", "ignore")):
        with pytest.raises(AnnotationGapError, match=f"^Site {site}: .*has the key '{key}', but the method 'audit'"):
            check_site(tmp_path / site, audit, site=site)
        check_site(tmp_path / site, read_job_settings({"method": "fedavg", "network": {"num_classes": 2}}), site=site)
