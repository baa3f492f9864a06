"""Components by settings of a job: on the command line, in named sets, in copies of a job."""

import pytest

from fedannot.apps.deployment.deployable_job import deployable_job
from fedannot.apps.runs.arms import Arm, plan
from fedannot.apps.runs.job import Job, JobError
from fedannot.apps.runs.known_settings import known_settings
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.approval.limits import Limits, check_settings
from fedannot.custom.compatibility import DataMismatchError, check_site
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.settings import SettingsError

UNET = {"_target_": "UNet", "channels": [4, 8], "strides": [2]}


@pytest.fixture
def job():
    return Job.open("jobs/fedavg")


def test_a_network_replaces_that_of_the_file(job):
    settings = job.settings_with({"network": "SegResNet", "network.num_classes": 2})
    assert settings.network.model_dump() == {
        "in_channels": 1,
        "num_classes": 2,
        "spatial_dims": 2,
        "_target_": "monai.networks.nets.SegResNet",
    }


def test_a_copy_of_a_job_has_the_same_settings(job, tmp_path):
    changes = {"network": UNET, "rounds": 2}
    copied = job.copy_with(changes, tmp_path / "copy")
    assert copied.settings() == job.settings_with(changes)
    again = copied.copy_with({"network": "SegResNet"}, tmp_path / "again")
    assert again.settings() == job.settings_with({"network": "SegResNet", "rounds": 2})
    assert copied.settings_with({"network.channels": [2, 4]}).network.component.arguments["channels"] == [2, 4]


def test_the_settings_of_a_component_are_listed(job, tmp_path):
    copied = job.copy_with({"network": UNET}, tmp_path / "copy")
    listed = {setting.name: setting for setting in known_settings(copied)}
    assert "network.features" not in listed
    assert listed["network.channels"].value == "[4, 8]"
    assert listed["network.channels"].allowed == "argument of monai.networks.nets.UNet"


def test_a_set_of_settings_names_a_network(job, tmp_path):
    file = tmp_path / "own.conf"
    file.write_text("settings { network { _target_ = UNet, channels = [4, 8], strides = [2], norm { a = 1 } } }")
    values = SettingsFile.read(job, str(file)).values
    assert values["network.norm.a"] == 1
    assert job.settings_with(values).network.component.arguments["norm"] == {"a": 1}


def test_arms_of_a_comparison_have_networks_of_their_own(job):
    arms = [Arm("a", job.folder, {"network": "SegResNet"}), Arm("b", job.folder, {"network": UNET})]
    planned = plan(arms, {"rounds": 2})
    names = [arm.job.settings_with(arm.overrides).network.component.name for arm in planned]
    assert names == ["SegResNet", "UNet"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"network.channels": [4]}, "no setting 'network.channels'; did you mean"),
        ({"network": "os.system"}, r"settings.conf: key 'network' is .*_target_ is 'os.system'"),
        ({"network": {**UNET, "act": "$1"}}, "argument 'act' is '\\$1'; expressions and references are not allowed"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(job, changes, said):
    with pytest.raises(SettingsError, match=said):
        job.settings_with(changes)


def test_a_participant_allows_some_classes(job):
    values = job.settings_with({"network": "SegResNet", "data_required": True}).model_dump(mode="json")
    assert check_settings(values, Limits()).network.component.name == "SegResNet"
    assert check_settings(values, Limits(components=("monai.networks.nets",))).network.component.name == "SegResNet"
    with pytest.raises(
        JobRefusedError,
        match=r"'network._target_' is '\S+\.SegResNet'; allowed here are classes of monai\.networks\.nets\.UNet",
    ):
        check_settings(values, Limits(components=("monai.networks.nets.UNet",)))


def test_a_participant_bounds_the_numbers_of_a_network(job):
    values = job.settings_with({"network": {**UNET, "channels": [4, 5000]}, "data_required": True})
    with pytest.raises(JobRefusedError, match=r"'network.channels' is 5000; at most 4096 is allowed here"):
        check_settings(values.model_dump(mode="json"), Limits())


OF_PHANTOM = {"embedded.sites": 2, "embedded.noise": None, "embedded.stratified": None, "embedded.exact": False}


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ({"_target_": "DenseNet121"}, r"returns \(4, 2\) in training .*; expected \(4, 2, \d+, \d+\): the background"),
        ({**UNET, "stride": 1}, "has no argument 'stride'; did you mean 'strides'"),
        ({"_target_": "monai.networks.nets.SegResNt"}, "has no 'SegResNt'; did you mean 'SegResNet'"),
        ({"_target_": "monai.transforms.LoadImage"}, "which is not allowed"),
        ({**UNET, "out_channels": 7}, "'out_channels' is 7, but follows from other settings as 2"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_before_the_run(job, tmp_path, network, said):
    with pytest.raises(DataMismatchError, match=rf"^--set network=.*: the job's key 'network' names .*{said}"):
        simulate(job.folder, tmp_path / "out", overrides={"network": network, **OF_PHANTOM}, progress=Progress())
    assert not (tmp_path / "out").exists()


def test_a_site_refuses_a_network_that_does_not_take_its_images(job, tmp_path):
    size = ImageDescription(classes=("lesion",), labels={0: 0, 1: 1}, channels=1, size=(33, 40))
    write_site_description(tmp_path, size)
    deep = {"_target_": "UNet", "channels": [4, 8, 8], "strides": [2, 2]}
    with pytest.raises(
        DataMismatchError, match=r"Site b: .*data\.yaml: .*takes no batch of the shape \(2, 1, 33, 40\)"
    ):
        check_site(tmp_path, job.settings_with({"network": deep}), site="b")
    check_site(tmp_path, job.settings_with({}), site="b")


def test_a_deployed_job_has_a_network_that_can_be_built(job, tmp_path):
    with pytest.raises(JobError, match=r"key 'network': monai\.networks\.nets\.UNet misses the arguments channels"):
        deployable_job(job.folder, tmp_path / "job", overrides={"network": "UNet"})
    assert not (tmp_path / "job").exists()


def test_decoupled_predictions_take_no_other_network():
    with pytest.raises(SettingsError, match=r"'_target_' = 'SegResNet': decoupled predictions join a code"):
        Job.open("jobs/decoupled").settings_with({"network": "SegResNet"})
