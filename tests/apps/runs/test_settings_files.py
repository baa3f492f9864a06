"""Named sets of settings beside the jobs: the papers' values, what is wrong in a file, and which data it is for."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from benchmark_tables import fedgsca as benchmark
from benchmark_tables import fedia as fedia_benchmark
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import compare
from fedannot.apps.runs.job import SETTINGS_FOLDER, Job, JobError
from fedannot.apps.runs.settings_files import Requirements, SettingsFile
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.methods.fedia.settings import FedIASettings
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

JOBS = Path(__file__).parents[3] / "jobs"

# FedA³I, Sec. 4.1 and 4.2: what both data sets share.
SITES = 50
SHARED = {
    "rounds": 100,
    "scored_rounds": "last",
    "network.features": [16, 32, 64, 128, 128, 16],
    "network.upsample": "nontrainable",
    "training.loss": "ce",
    "training.optimizer": "adam",
    "training.betas": [0.9, 0.99],
    "training.schedule": "constant",
    "training.learning_rate": 5e-3,
    "training.batch_size": 8,
    "training.local_epochs": 5,
}
# Sec. 3.3, without the checks that the paper does not have.
WITHOUT_GUARDS = {
    "weighting": "intra_and_inter",
    "balance": 0.5,
    "layer_weight": 1,
    "layer_power": 1,
    "layer_bias": 0,
    "group_decision": "test",
    "group_scale": "difficulty",
    "group_test_level": 1,
    "min_predicted_fraction": 0,
    "max_extra_warmup_rounds": 0,
}
# Channels of the images, warm-up rounds T1 (Sec. 4.2) and noise (Table 1).
PUBLISHED = {
    "skin-ns": (3, 10, "M(20,-20,10,0.2)"),
    "skin-ne": (3, 10, "M(25,-25,10,0.8)"),
    "breast-ns": (1, 30, "M(25,-15,5,0.2)"),
    "breast-ne": (1, 30, "M(25,-15,5,0.8)"),
}

# FedIA, Sec. 3.1: a_k = 20 % k − 10 % m + 40 % for MS, 10 % k − 30 % m + 70 % for LUNG; and the warm-up T (Sec. 3.1).
INCOMPLETE = {
    "ms-m0": (10, "0.4,0.6,0.8,1"),
    "ms-m1": (10, "0.3,0.5,0.7,0.9"),
    "ms-m2": (10, "0.2,0.4,0.6,0.8"),
    "ms-m3": (10, "0.1,0.3,0.5,0.7"),
    "lung-m0": (40, "0.7,0.8,0.9,1"),
    "lung-m1": (40, "0.4,0.5,0.6,0.7"),
    "lung-m2": (40, "0.1,0.2,0.3,0.4"),
}
SHARED_INCOMPLETE = {
    "rounds": 300,
    "scored_rounds": "last_10",
    "network.in_channels": 1,
    "network.features": [64, 128, 256, 512, 1024, 64],
    "network.upsample": "nontrainable",
    "training.loss": "dice",
    # Eq. 5.
    "training.dice_loss_over": "all",
    "training.optimizer": "adam",
    "training.betas": [0.9, 0.99],
    "training.schedule": "constant",
    "training.learning_rate": 1e-4,
    "training.batch_size": 4,
    "training.local_epochs": 1,
}

# No round beyond the warm-up.
OF_FEDIA = fedia_benchmark.PUBLISHED | {"max_extra_warmup_rounds": 0}

# FedGSCA, Sec. 4.1: sites, classes and the table of clinical confusions, none where the labels' errors are real.
MISLABELLED = {"kvasir": (4, 10, "kvasir-capsule"), "odir": (4, 8, "oia-odir"), "chaoyang": (3, 4, None)}
# Tables 4 to 9: extreme and plain noise, heterogeneous rates, heterogeneous types.
LABEL_NOISE = {"S40", "S50", "P10", "P20", "C10", "C20"}
LABEL_NOISE |= {"0-S10-S10-S20", "0-S20-S20-S40", "0-P10-P10-P20", "0-P20-P20-P40"}
LABEL_NOISE |= {"0-S10-P10-C10", "S10-S20-P10-P20", "0-S40-P20-C20"}
SHARED_MISLABELLED = {
    "rounds": 100,
    "scored_rounds": "last_5",
    "network.in_channels": 3,
    "network.depth": 50,
    "network.widths": [64, 128, 256, 512],
    "network.stem": "large",
    "training.learning_rate": 0.01,
    "training.momentum": 0.9,
    "training.weight_decay": 1e-6,
    "training.learning_rate_steps": [0.7, 0.9],
    "training.batch_size": 128,
    "training.local_epochs": 5,
}
# What the job has as well.
OF_FEDGSCA = benchmark.PUBLISHED | {
    "warmup_rounds": 0,
    "selector": "global",
    "smallest_noise_level": 0.1,
    "training.optimizer": "sgd",
    "training.schedule": "steps",
    "training.augmentation": True,
}
SHIPPED = {
    "audit": {"quick"},
    "audit_classification": {"quick", "parts"},
    "fedaaai": {*PUBLISHED, "published"},
    "fedavg": {*PUBLISHED, *INCOMPLETE, "left-atrium"},
    "fedia": {*INCOMPLETE, "published", "published-method"},
    "fedselect": {"published"},
    "fedselect_classification": {"published"},
    "fedcorr": {"published"},
    "fedcorr_classification": {"published"},
    "fedhac": {"published"},
    "fedgsca": {*MISLABELLED, "published", "published-method"},
    "fedavg_classification": {*MISLABELLED},
    "auto_classification": {*MISLABELLED},
    **{job: {"left-atrium"} for job in ("decoupled_server", "ditto", "fedcurv", "fedrep", "single_site")},
}
# Gao et al., Sec. 3.2, and what is decided here.
LEFT_ATRIUM = {
    "rounds": 500,
    "scored_rounds": "last",
    "network.in_channels": 1,
    "network.features": [16, 32, 64, 128, 256, 16],
    "network.upsample": "deconv",
    "training.optimizer": "adam",
    "training.betas": [0.9, 0.999],
    "training.schedule": "constant",
    "training.learning_rate_steps": [],
    "training.learning_rate": 1e-3,
    "training.batch_size": 8,
    "training.local_epochs": 1,
    "training.augmentation": ["rotation", "flip", "elastic", "noise"],
    "training.augmentation_unit": "sample",
}

NOISE = "M(20,-20,10,0.2)"


@pytest.fixture
def job(tmp_path):
    shutil.copytree(JOBS / "fedaaai", tmp_path / "fedaaai")
    # Not opened: that checks the whole folder, which takes half a second.
    return Job(tmp_path / "fedaaai")


def write_set(job, text, name="mine"):
    file = job.folder / SETTINGS_FOLDER / f"{name}.conf"
    file.write_text(text)
    return file


def write_federation(folder, sites=2, noise=NOISE, size=(64, 48), channels=3, odd_site=None, odd=None):
    """What describes a federation, without its images; one site may differ in some keys."""
    names = [f"site-{number + 1}" for number in range(sites)]
    values = {"name": "test", "sites": names} | ({} if noise is None else {"noise": noise})
    folder.mkdir(parents=True)
    (folder / "federation.yaml").write_text(yaml.safe_dump(values))
    for name in names:
        (folder / name).mkdir()
        description = {"channels": channels, "size": list(size), "labels": {0: 0, 255: 1}, "classes": ["lesion"]}
        description |= odd if name == odd_site else {}
        (folder / name / "data.yaml").write_text(yaml.safe_dump(description))
    return folder


def comments(file):
    """The comments of a file as one text, as a shell joins lines."""
    lines = [
        line.removeprefix("#").strip() for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#")
    ]
    return " ".join(lines).replace("\\ ", "")


@pytest.mark.parametrize("name", PUBLISHED)
def test_papers_settings_of_fedaaai(name):
    channels, warmup_rounds, noise = PUBLISHED[name]
    read = SettingsFile.read(Job(JOBS / "fedaaai"), name)
    assert read.values == SHARED | WITHOUT_GUARDS | {"network.in_channels": channels, "warmup_rounds": warmup_rounds}
    assert read.requires == Requirements(sites=SITES, size=(256, 256), channels=channels, noise=noise)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_reference_trains_with_the_same_settings_on_the_same_data(name):
    channels, _, noise = PUBLISHED[name]
    read = SettingsFile.read(Job(JOBS / "fedavg"), name)
    assert read.values == SHARED | {"network.in_channels": channels}
    assert read.requires == Requirements(sites=SITES, size=(256, 256), channels=channels, noise=noise)


@pytest.mark.parametrize("name", INCOMPLETE)
@pytest.mark.parametrize("method", ["fedia", "fedavg"])
def test_papers_settings_of_fedia_and_its_reference(method, name):
    warmup_rounds, shares = INCOMPLETE[name]
    read = SettingsFile.read(Job(JOBS / method), name)
    own = {"warmup_rounds": warmup_rounds} | OF_FEDIA
    assert read.values == SHARED_INCOMPLETE | (own if method == "fedia" else {})
    # "Resized to 256 × 256", not cropped.
    noise = f"completeness {shares}"
    assert read.requires == Requirements(sites=4, size=(256, 256), fit="resize", channels=1, noise=noise)


@pytest.mark.parametrize("name", MISLABELLED)
@pytest.mark.parametrize("method", ["fedgsca", "fedavg_classification"])
def test_papers_settings_of_fedgsca_and_its_reference(method, name):
    sites, classes, table = MISLABELLED[name]
    read = SettingsFile.read(Job(JOBS / method), name)
    if method == "fedgsca":
        paper = {"initial_threshold": 0.8, "relaxation": 0.05, "beta_start": 0.75, "beta_end": 0.55}
        paper |= {"selector_losses": "trained", "sample_loss": "ce", "confident_doubts": False, "loss": "rcl"}
        assert paper.items() <= read.values.items()
        assert (read.values["pseudo_labels"], read.values["beta_schedule"]) == ("adaptive", "cosine")
    assert read.values == SHARED_MISLABELLED | {"network.num_classes": classes} | (
        OF_FEDGSCA if method == "fedgsca" else {}
    )
    requires = read.requires
    assert (requires.sites, requires.size, requires.channels, requires.table) == (sites, (224, 224), 3, table)
    assert set(requires.noises) == ({f"labels {noise}" for noise in LABEL_NOISE} if table else set())
    text = comments(JOBS / method / "settings" / f"{name}.conf")
    data_set = {"kvasir": "kvasir-capsule", "odir": "oia-odir", "chaoyang": "chaoyang"}[name]
    assert f"fedannot data import --dataset {data_set}=DIR --sites {sites} --size 224,224 --out runs/{name} " in text
    if table:
        made = f"fedannot data noise runs/{name} --labels 0-S40-P20-C20 --table {table} --out runs/{name}-noisy "
        assert made in text


@pytest.mark.parametrize(
    ("method", "published"), [("fedgsca", benchmark.PUBLISHED), ("fedia", fedia_benchmark.PUBLISHED)]
)
def test_published_parts_are_for_any_data(method, published):
    read = SettingsFile.read(Job(JOBS / method), "published-method")
    assert read.values == published
    assert read.requires == Requirements()


@pytest.mark.parametrize(("method", "name"), [("fedgsca", "kvasir"), ("fedia", "ms-m0"), ("fedaaai", "skin-ns")])
def test_published_sets_are_those_of_the_papers_data_for_any_data(method, name):
    of_data = {"network.in_channels", "network.num_classes"}
    published, same = (SettingsFile.read(Job(JOBS / method), each) for each in ("published", name))
    assert published.values == {key: value for key, value in same.values.items() if key not in of_data}
    assert published.requires == Requirements()


def test_the_published_form_of_fedia_is_that_of_its_defaults():
    """What the set changes of the job is what the method does where nobody says anything, but for the first forms."""
    published = Job(JOBS / "fedia").settings_with(SettingsFile.read(Job(JOBS / "fedia"), "published").values)
    defaults = FedIASettings()
    for name in fedia_benchmark.PUBLISHED:
        assert getattr(published, name) == getattr(defaults, name)
    assert not published.establishes_completeness
    own = Job(JOBS / "fedia").settings()
    assert (own.weighting, own.estimator, own.trigger, own.additions) == ("established", "sure", "estimate", "lesions")


@pytest.mark.parametrize("method", [job for job, names in SHIPPED.items() if "left-atrium" in names])
def test_papers_settings_of_decoupled_predictions_and_its_rivals(method):
    read = SettingsFile.read(Job(JOBS / method), "left-atrium")
    own = {
        "warmup_rounds": 50,
        "adaptation": "published",
        "own_threshold": False,
        "trace_weight": 0.01,
        "divergence_weight": 0.01,
        "noise_exponent": 0.7,
        "network.latent": 8,
        "network.test_code": "sampled",
        "network.encoder_features": [32, 64, 128, 192],
    }
    assert read.values == LEFT_ATRIUM | (own if method == "decoupled_server" else {})
    requires = read.requires
    assert (requires.sites, requires.size, requires.channels) == (4, (256, 256), 1)


def test_protocols_that_are_required_come_with_the_command_that_makes_them(tmp_path):
    read = SettingsFile.read(Job(JOBS / "decoupled_server"), "left-atrium")

    def federation(name, noise):
        return write_federation(tmp_path / name, sites=4, noise=noise, size=(256, 256), channels=1)

    for number, same in enumerate(("protocols 0-0-C-D", "protocols 0-0-C(3, 4)-D(3,4,4,0.25)")):
        read.check_data(federation(f"right-{number}", same))
    clean = federation("clean", None)
    command = rf'data noise {clean} --protocols "0-0-C\(3,4,4,0\.25\)-D\(3,4,4,0\.25\)" --out'
    with pytest.raises(DataError, match=command):
        read.check_data(clean)
    with pytest.raises(DataError, match="found noise 'protocols 0-0-D-C'"):
        read.check_data(federation("other", "protocols 0-0-D-C"))


def test_one_of_several_noises_is_enough(job, tmp_path):
    write_set(job, 'settings { rounds = 9 }\nrequires { noise = ["labels S40", "labels 0-C20"], table = my.yaml }\n')
    read = SettingsFile.read(job, "mine")
    for noise in ("labels S40", "labels 0-C20"):
        read.check_data(write_federation(tmp_path / noise, noise=noise))
    with pytest.raises(
        DataError, match=r"found no noise.* requires labels S40 or labels 0-C20\. .* --labels S40 --table"
    ):
        read.check_data(write_federation(tmp_path / "clean", noise=None))
    with pytest.raises(DataError, match="found noise 'labels S50'"):
        read.check_data(write_federation(tmp_path / "other", noise="labels S50"))
    write_set(job, 'settings { rounds = 9 }\nrequires { noise = ["labels X40"] }\n', name="wrong")
    with pytest.raises(SettingsError, match="expected 0, or S, P or C"):
        SettingsFile.read(job, "wrong")


@pytest.mark.parametrize("name", INCOMPLETE)
@pytest.mark.parametrize("method", ["fedia", "fedavg"])
def test_comments_of_incomplete_sets_name_the_commands_that_make_their_data(method, name):
    data_set = name.partition("-")[0]
    text = comments(JOBS / method / "settings" / f"{name}.conf")
    (command,) = re.findall(rf"fedannot data import .*? --out runs/{data_set} ", text)
    sources = {"ms": ["msseg1", "ljubljana-ms"], "lung": ["covid1920"]}[data_set]
    assert re.findall(r"--dataset ([\w-]+)=", command) == sources
    for part in ("--sites 4", "--test 0.2", "--pipeline volume_slices", "--size 256,256", "--fit resize"):
        assert part in command
    made = f"fedannot data noise runs/{data_set} --completeness {INCOMPLETE[name][1]} --out runs/{name} "
    assert made in text
    assert f"jobs/fedavg jobs/fedia --settings {name} --data runs/{name} " in text


def test_missing_lesions_that_are_required_come_with_the_command_that_makes_them(tmp_path):
    wanted = "completeness 0.4,0.6,0.8,1"
    job = Job(shutil.copytree(JOBS / "fedia", tmp_path / "fedia"))
    write_set(job, f'settings {{ rounds = 20 }}\nrequires {{ noise = "{wanted}" }}')
    read = SettingsFile.read(job, "mine")
    data = write_federation(tmp_path / "data", noise=None)
    with pytest.raises(DataError, match=rf"fedannot data noise {data} --completeness 0\.4,0\.6,0\.8,1 --out"):
        read.check_data(data)
    other = write_federation(tmp_path / "other", noise="completeness 0.1,0.2,0.3,0.4")
    with pytest.raises(DataError, match=r"data noise CLEAN --completeness 0\.4,0\.6,0\.8,1 --out NOISY"):
        read.check_data(other)
    read.check_data(write_federation(tmp_path / "right", noise=wanted))


@pytest.mark.parametrize("folder", sorted(JOBS.glob("*/settings")), ids=lambda folder: folder.parent.name)
def test_every_shipped_file_can_be_read(folder):
    job = Job(folder.parent)
    names = sorted(file.stem for file in folder.iterdir())
    assert names == sorted(SHIPPED[folder.parent.name])
    for name in names:
        read = SettingsFile.read(job, name)
        settings = job.settings_with(read.values)
        assert settings.method == job.settings().method


@pytest.mark.parametrize(
    "file",
    [file for file in sorted(JOBS.glob("*/settings/*.conf")) if file.stem in PUBLISHED],
    ids=lambda file: file.parts[-3] + file.stem,
)
def test_comments_of_a_shipped_file_name_the_commands_that_make_its_data(file):
    channels, _, noise = PUBLISHED[file.stem]
    data_set = file.stem.partition("-")[0]
    sources = {"skin": ("isic2017",), "breast": ("busi", "busis", "udiat")}[data_set]
    text = comments(file)
    (command,) = re.findall(rf"fedannot data import .*? --out runs/{data_set} ", text)
    assert re.findall(r"--dataset (\w+)=", command) == list(sources)
    assert "--size 256,256" in command
    assert ("--channels 3" in command) == (channels == 3)
    assert ("--sites 50-by-source" in command) == (data_set == "breast")
    assert f'fedannot data noise runs/{data_set} --model "{noise}" --out runs/{file.stem} ' in text
    assert f"--settings {file.stem} --data runs/{file.stem} " in text
    assert "--set training.loss=ce_dice" in text


def test_a_path_of_a_file_works_as_well(job, tmp_path):
    file = tmp_path / "elsewhere.conf"
    file.write_text("settings { training.batch_size = 3, network { features = [4, 4, 8, 8, 8, 4] } }")
    read = SettingsFile.read(job, str(file))
    assert read.values == {"training.batch_size": 3, "network.features": [4, 4, 8, 8, 8, 4]}
    assert read.requires == Requirements()
    assert read.file == file


def test_a_path_without_a_file_is_named(job, tmp_path):
    with pytest.raises(JobError) as caught:
        SettingsFile.read(job, str(tmp_path / "skin-ns.conf"))
    assert str(caught.value) == f"Expected a file with settings, but {tmp_path / 'skin-ns.conf'} does not exist."


def test_an_unknown_name_is_answered_with_the_nearest_and_all_names(job):
    with pytest.raises(JobError) as caught:
        SettingsFile.read(job, "brest-ns")
    assert str(caught.value) == (
        f"{job.folder / 'settings'}: no settings 'brest-ns'; did you mean 'breast-ns'? "
        "Available: breast-ne, breast-ns, published, skin-ne, skin-ns; the path of a file ends in .conf."
    )


def test_a_job_without_named_settings_says_so(job):
    shutil.rmtree(job.folder / SETTINGS_FOLDER)
    with pytest.raises(JobError, match=r"no settings 'skin-ns'\. Available: none; "):
        SettingsFile.read(job, "skin-ns")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "settings { training.batchsize = 8 }",
            "no setting 'training.batchsize'; did you mean 'training.batch_size'",
        ),
        ("settings { warmup = 8 }", "no setting 'warmup'; did you mean 'warmup_rounds'"),
        ("settings { training = 3 }", "no setting 'training'"),
        ("settings { rounds = many }", "key 'rounds' is 'many': "),
        ("settings { network.in_channels = 17 }", "key 'network.in_channels' is 17: "),
        (
            "settings { warmup_rounds = 9, rounds = 9 }",
            "warmup_rounds must be below rounds, but got warmup_rounds=9, rounds=9.",
        ),
        ("rounds = 3", "missing key 'settings'."),
        ("settings = 3", "key 'settings' is 3: "),
        ("", "missing key 'settings'."),
        ("settings {}, require = 5", "unknown key 'require' = 5; did you mean 'requires'? Allowed keys: "),
        ("settings {}, requires { site = 5 }", "unknown key 'requires.site' = 5; did you mean 'sites'?"),
        ("settings {}, requires { sites = 0 }", "key 'requires.sites' is 0: "),
        ("settings {}, requires { channels = 2 }", "key 'requires.channels' is 2: "),
        ("settings {}, requires { size = [256] }", "key 'requires.size.1'"),
        ('settings {}, requires { noise = "M(20)" }', "key 'requires.noise' is 'M(20)': "),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_it(job, text, message):
    file = write_set(job, text)
    with pytest.raises(SettingsError) as caught:
        SettingsFile.read(job, "mine")
    assert all(line.startswith(f"{file}: ") for line in str(caught.value).splitlines())
    assert message in str(caught.value)


def test_a_setting_of_another_method_is_unknown(tmp_path):
    with pytest.raises(SettingsError, match=r"fedaaai/settings/skin-ns\.conf: no setting 'warmup_rounds'"):
        SettingsFile.read(Job(JOBS / "fedavg"), str(JOBS / "fedaaai" / "settings" / "skin-ns.conf"))


def test_a_file_that_is_not_hocon_is_named(job):
    file = write_set(job, "settings { rounds = ")
    with pytest.raises(JobError) as caught:
        SettingsFile.read(job, "mine")
    assert str(caught.value).startswith(f"{file} is not HOCON with keys and values: ")


def read_with(job, requires):
    file = write_set(job, f"settings {{}}\nrequires {{ {requires} }}")
    return file, SettingsFile.read(job, "mine")


ALL = f'sites = 2, size = [64, 48], channels = 3, noise = "{NOISE}"'


@pytest.mark.parametrize("noise", [NOISE, "M( 20, −20, 10.0, 0.20 )"])
def test_the_right_data_are_accepted(job, tmp_path, noise):
    _, read = read_with(job, ALL)
    read.check_data(write_federation(tmp_path / "data", noise=noise))


@pytest.mark.parametrize(
    ("requires", "made", "found", "wanted", "option"),
    [
        ("sites = 50", {}, "federation.yaml: found sites 2,", "50", "--sites 50"),
        ("sites = 1", {}, "federation.yaml: found sites 2,", "1", "--sites 1"),
        ("size = [256, 128]", {}, "site-1/data.yaml: found size 64×48,", "256×128", "--size 256,128"),
        ("channels = 1", {}, "site-1/data.yaml: found channels 3,", "1", "--channels 1"),
        ("fit = pad", {}, "site-1/data.yaml: found fit resize,", "pad", "--fit pad"),
        (
            "channels = 3",
            {"odd_site": "site-2", "odd": {"channels": 1}},
            "site-2/data.yaml: found channels 1,",
            "3",
            "--channels 3",
        ),
    ],
)
def test_data_of_another_form_are_named_with_the_import_that_mends_them(
    job, tmp_path, requires, made, found, wanted, option
):
    file, read = read_with(job, requires)
    data = write_federation(tmp_path / "data", **made)
    with pytest.raises(DataError) as caught:
        read.check_data(data)
    assert str(caught.value) == (
        f"{data}/{found} but {file} requires {wanted}. Import the data with {option}: fedannot data import … {option} "
        "--out …; the comments in the file show the whole command."
    )


def test_data_without_noise_are_named_with_the_command_that_adds_it(job, tmp_path):
    file, read = read_with(job, ALL)
    data = write_federation(tmp_path / "data", noise=None)
    with pytest.raises(DataError) as caught:
        read.check_data(data)
    assert str(caught.value) == (
        f"{data}/federation.yaml: found no noise, but {file} requires {NOISE}. This makes it: "
        f'fedannot data noise {data} --model "{NOISE}" --out {data}-noisy'
    )


@pytest.mark.parametrize("noise", ["M(25,-25,10,0.8)", f"{NOISE}; {NOISE}", "drawn by hand"])
def test_data_with_other_noise_cannot_be_mended_by_more_of_it(job, tmp_path, noise):
    file, read = read_with(job, ALL)
    data = write_federation(tmp_path / "data", noise=noise)
    with pytest.raises(DataError) as caught:
        read.check_data(data)
    assert str(caught.value) == (
        f"{data}/federation.yaml: found noise {noise!r}, but {file} requires {NOISE}. Noise adds up, so make it from "
        f'the federation without noise: fedannot data noise CLEAN --model "{NOISE}" --out NOISY'
    )


def test_everything_that_differs_is_named_at_once(job, tmp_path):
    _, read = read_with(job, 'sites = 3, size = [64, 64], channels = 1, noise = "M(1,-1,1,0.5)"')
    with pytest.raises(DataError) as caught:
        read.check_data(write_federation(tmp_path / "data"))
    starts = ["found sites 2", "found size 64×48", "found channels 3", "found noise"]
    assert [start in line for start, line in zip(starts, str(caught.value).splitlines(), strict=True)] == [True] * 4


def test_settings_for_certain_data_are_not_for_the_phantom(job):
    file, read = read_with(job, ALL)
    with pytest.raises(DataError) as caught:
        read.check_data(None)
    assert str(caught.value) == (
        f"{file}: requires a federation (sites 2, size 64×48, channels 3, noise {NOISE}); give its folder with --data. "
        "The comments in the file say how to make it."
    )


@pytest.mark.parametrize("requires", ["", "# nothing\n"])
def test_settings_for_any_data_suit_the_phantom(job, requires):
    read_with(job, requires)[1].check_data(None)


def test_simulate_compares_the_data_before_anything_is_written(job, tmp_path):
    data = write_federation(tmp_path / "data")
    with pytest.raises(DataError, match=r"found sites 2, but .*skin-ns\.conf requires 50"):
        simulate(job.folder, tmp_path / "out", data=data, settings="skin-ns")
    assert not (tmp_path / "out").exists()


def test_simulate_does_not_put_the_phantom_in_the_place_of_certain_data(job, tmp_path):
    with pytest.raises(DataError, match=r"skin-ns\.conf: requires a federation \(sites 50, "):
        simulate(job.folder, tmp_path / "out", settings="skin-ns")
    assert not (tmp_path / "out").exists()


def test_compare_checks_the_data_of_every_seed_before_anything_is_written(job, tmp_path):
    for seed, noise in ((0, NOISE), (1, None)):
        write_federation(tmp_path / f"data{seed}", noise=noise)
    shutil.copytree(JOBS / "fedavg", tmp_path / "fedavg")
    jobs = [job, Job(tmp_path / "fedavg")]
    for each in jobs:
        write_set(each, f'settings {{}}\nrequires {{ noise = "{NOISE}" }}')
    with pytest.raises(DataError, match=r"data1/federation\.yaml: found no noise"):
        compare(
            [Arm(each.folder.name, each.folder) for each in jobs],
            tmp_path / "out",
            data=str(tmp_path / "data{seed}"),
            seeds=[0, 1],
            settings="mine",
            overrides={},
        )
    assert not (tmp_path / "out").exists()


def test_compare_wants_the_name_beside_every_job(job, tmp_path):
    write_set(job, "settings { rounds = 9 }")
    arms = [Arm("mine", job.folder), Arm("fedavg", JOBS / "fedavg")]
    with pytest.raises(JobError, match=r"fedavg/settings: no settings 'mine'"):
        compare(arms, tmp_path / "out", data=None, seeds=[0], settings="mine", overrides={})
    assert not (tmp_path / "out").exists()


def test_the_command_reports_an_unknown_name(tmp_path):
    arguments = ["simulate", str(JOBS / "fedaaai"), "--settings", "skin", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "Available: breast-ne, breast-ns, published, skin-ne, skin-ns" in result.output
