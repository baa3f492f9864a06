"""Every job of the project over TLS: the simulator's bits, and registered fields and nothing else that leaves a site.

What the sites' processes send is recorded where all of NVFlare's messages pass (capture/sitecustomize.py). Deselected
unless asked for: `make test-processes`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from conftest import JOBS
from hospitals import BOUNDS, END_TIMEOUT, SETTINGS, SITES, Hospitals, started_hospitals
from plain_records import simulate
from support.shifted_discs import SHIFT, write_shifted_site

from fedannot.apps.deployment.deployable_job import deployable_job
from fedannot.apps.runs.job import Job
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.flare.messages import METHOD_TASK
from fedannot.custom.methods.auto.outbound import MOVED_PATIENTS
from fedannot.custom.methods.lookup import method_of
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import COMPARE_SCORES, KEEP_SCORES, TRAIN

pytestmark = pytest.mark.processes

SEGMENTATION = {"rounds": 2, "network.features": SETTINGS["network.features"], "training.local_epochs": 1}
CLASSIFICATION = {
    "rounds": 2,
    "network.widths": [4, 4, 8, 8],
    "training.local_epochs": 1,
    "training.batch_size": 8,
}
WARMUP = {"warmup_rounds": 1}
DECOUPLED = SEGMENTATION | WARMUP | {"network.latent": 3, "network.encoder_features": [4, 8]}
JOB_SETTINGS: dict[str, dict[str, Any]] = {
    "fedavg": SEGMENTATION,
    "fedaaai": SEGMENTATION | WARMUP | {"min_predicted_fraction": 0.0, "group_test_level": 1.0},
    "fedia": SEGMENTATION
    | WARMUP
    | {"rounds": 4, "warmup_rounds": 2, "max_extra_warmup_rounds": 0, "correction_margin": 0.0},
    "fedhac": SEGMENTATION
    | WARMUP
    | {"rounds": 4, "warmup_rounds": 1, "max_extra_warmup_rounds": 0, "correction_margin": -1.0, "clean_delay": 2}
    | {"redo_delay": 3, "prototypes": "means"},
    "fedcurv": SEGMENTATION,
    "decoupled": DECOUPLED,
    "decoupled_server": DECOUPLED,
    "fedrep": SEGMENTATION,
    "ditto": SEGMENTATION,
    "fedbn": SEGMENTATION,
    "iop_fl": SEGMENTATION,
    "fedmix": SEGMENTATION,
    "single_site": SEGMENTATION,
    "fednoro": SEGMENTATION | WARMUP | {"min_predicted_fraction": 0.0},
    "fednoro_classification": CLASSIFICATION | {"warmup_rounds": 1},
    # Deployed jobs want three sites in every round.
    "fedselect": SEGMENTATION | {"warmup_rounds": 1, "site_fraction": 1.0},
    "fedselect_classification": CLASSIFICATION | {"warmup_rounds": 1, "site_fraction": 1.0},
    "fedcorr": SEGMENTATION | {"preprocessing_rounds": 1, "finetuning_rounds": 1, "rounds": 3, "clean_share": 1.0},
    "fedcorr_classification": CLASSIFICATION
    | {"preprocessing_rounds": 1, "finetuning_rounds": 1, "rounds": 3, "clean_share": 1.0},
    "elr": SEGMENTATION,
    "feddm": SEGMENTATION | {"random_images": 4, "training.batch_size": 4},
    # As soon as the IoU has risen, any curve through a few numbers asks for a correction.
    "adele": SEGMENTATION
    | {"rounds": 5, "slope_change": 1e-6, "training.learning_rate": 0.05, "training.local_epochs": 4},
    "elr_classification": CLASSIFICATION,
    "fedrobust": SEGMENTATION,
    "fedrobust_classification": CLASSIFICATION,
    "fedfixer": CLASSIFICATION | {"warmup_rounds": 1},
    "fedgp": CLASSIFICATION | {"warmup_rounds": 1},
    "fedavg_classification": CLASSIFICATION,
    "fedgsca": CLASSIFICATION | {"warmup_rounds": 1, "rounds": 3},
    # Of a model that has hardly learnt anything estimates are asked for all the same.
    "auto": SEGMENTATION | WARMUP | {"min_predicted_fraction": 0.0, "correct_shift": True},
    "auto_classification": CLASSIFICATION | WARMUP,
    "audit": SEGMENTATION | {"folds": 2, "min_predicted_fraction": 0.0},
    "audit_classification": CLASSIFICATION | {"folds": 2},
}

# Declared fields that no site sends in these runs: a swarm's sites keep their models without a server that asks.
UNSEEN = {"decoupled": {"has_model"}}
# Of two statistics the settings choose one.
UNSEEN |= {"fedcorr_classification": {"mean_case_loss"}}

# These send some fields where their settings ask for it, or where they decide on another method, which is not here.
DECIDING = {"auto", "auto_classification", "audit"}
UNASKED = {KEEP_SCORES, COMPARE_SCORES}

# What NVFlare sends beside results: registration, heart beats, acknowledgements, and pieces of models.
FRAMEWORK_PAYLOADS = (
    set(),
    {"cert", "cn", "signature", "site_config"},
    {"body", "headers", "id", "kind", "topic"},
    {"bytes"},
    {"cancel_capable", "data", "state", "status"},
    {"cert_ca_content", "cert_content"},
    {"code", "job_id", "reason"},
    {"confirm", "confirm_nonce", "ref_id"},
    {"confirm_capable", "ref_id"},
    {"confirm_capable", "ref_id", "state"},
    {"confirm_expected", "confirm_nonce", "status"},
    # The status of a swarm, and its last model.
    {"cwf.result"},
)
# Of a result beside its fields.
FRAMEWORK_META = {"params_type"}
FRAMEWORK_HEADERS = {
    "__audit_event_id__",
    "__content_type__",
    "__cookie_jar__",
    "__msg_root_id__",
    "__msg_root_ttl__",
    "__pass_through__",
    "__peer_ctx__",
    "__peer_props__",
    "__rc__",
    "__task_id__",
    "__task_name__",
    "__task_operator__",
    "__topic__",
    "__workflow__",
    "current_round",
    "fedannot_refusal",
}
# Of a swarm: whose turn it is, which round, how far a site is.
SWARM_REPORT = "swarm_report_learn_result"
SWARM_HEADERS_BEGIN = ("cwf.", "num_rounds", "contribution_round", "rm.", "__reliable")
# What NVFlare says of a site in every message.
PEER_PROPERTIES = {
    "__run_num__",
    "__identity_name__",
    "__fqsn__",
    "__is_leaf__",
    "__client_name__",
    "__current_job_id__",
    "job_id",
    "project_name",
}


@dataclass(frozen=True)
class Ran:
    """A job that ran over TLS, with what its sites sent."""

    name: str
    job_id: str
    hospitals: Hospitals
    messages: list[dict[str, Any]]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("captured")


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory, captured: Path) -> Iterator[Hospitals]:
    with started_hospitals(tmp_path_factory, captured) as started:
        yield started


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation of images with classes."""
    folder = tmp_path_factory.mktemp("cells") / "data"
    write_phantom_federation(folder, Cells("0-S50-S50"), num_sites=3, images_per_site=24, test_images=8)
    return folder


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation in which all masks of one site are drawn at another place."""
    folder = tmp_path_factory.mktemp("shifted")
    for site in SITES:
        write_shifted_site(folder / site, SHIFT if site == SITES[0] else (0.0, 0.0))
    write_federation(
        folder, FederationDescription.model_validate({"name": "f", "task": "segmentation", "sites": SITES})
    )
    return folder


@pytest.fixture(scope="module")
def data_of(hospitals: Hospitals, cells: Path, shifted: Path) -> Callable[[str], Path]:
    def chosen(name: str) -> Path:
        if name == "auto":
            return shifted
        return cells if CLASSIFICATION.items() <= {**JOB_SETTINGS[name], "rounds": 2}.items() else hospitals.data

    return chosen


@pytest.fixture(scope="module", params=sorted(JOB_SETTINGS))
def ran(request: pytest.FixtureRequest, hospitals: Hospitals, data_of: Callable[[str], Path], captured: Path) -> Ran:
    name: str = request.param
    data = data_of(name)
    for site in SITES:
        description = yaml.safe_load((data / site / "data.yaml").read_text(encoding="utf-8"))
        description["datalist"] = str(data / site / "datalist.json")
        (hospitals.kits / site / "local" / "data.yaml").write_text(yaml.safe_dump(description), encoding="utf-8")
    sizes = {file: file.stat().st_size for file in captured.iterdir()}
    folder = hospitals.jobs / f"every-{name}"
    like = hospitals.kits / "site-1" / "local" / "data.yaml"
    deployable_job(JOBS / name, folder, sites=SITES, description=like, overrides=JOB_SETTINGS[name])
    # Models of other sites reach no site unless all say so.
    allowed = ("localhost", *SITES) if name == "feddm" else ()
    with hospitals.with_limits({"models_to_sites": True}, *allowed):
        job_id = hospitals.submit(folder)
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    messages = []
    for file in sorted(captured.iterdir()):
        with file.open(encoding="utf-8") as stream:
            stream.seek(sizes.get(file, 0))
            messages += [json.loads(line) for line in stream]
    return Ran(name, job_id, hospitals, messages)


def test_every_job_that_trains_is_here() -> None:
    """What a fingerprint sends is in tests/custom/methods/fingerprint."""
    assert set(JOB_SETTINGS) == {path.name for path in JOBS.iterdir()} - {"fingerprint"}


def test_the_model_is_the_simulators(ran: Ran, data_of: Callable[[str], Path], tmp_path: Path) -> None:
    """A swarm's is that of its form with a server."""
    simulated = "decoupled_server" if ran.name == "decoupled" else ran.name
    bounds = {} if ran.name in ("decoupled", "fedcurv") else BOUNDS
    overrides = JOB_SETTINGS[ran.name] | bounds
    simulate(JOBS / simulated, tmp_path / "out", data=data_of(ran.name), overrides=overrides)
    expected = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]
    if ran.name == "decoupled":
        file = ran.hospitals.private("site-1", ran.job_id) / "personal" / "local_model.pt"
        model = torch.load(file, weights_only=True)["shared"]
    else:
        model = ran.hospitals.result(ran.job_id)[1]
    assert model.keys() == expected.keys()
    assert all(torch.equal(model[name], expected[name]) for name in model)


def results_in(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The results that a message holds, at any depth: a swarm wraps them."""
    payload = message["payload"]
    level = [payload]
    while level:
        element = level.pop()
        if isinstance(element, dict):
            if "DXO" in element:
                yield element
            level += element.values()
        elif isinstance(element, list):
            level += element


def test_fields_of_the_jobs_own_method_leave_and_nothing_else(ran: Ran) -> None:
    method = method_of(Job.open(JOBS / ran.name).settings())
    registry = OutboundRegistry(method.outbound_fields)
    results, seen = 0, set()
    for message in ran.messages:
        for result in results_in(message):
            headers, dxo = result.get("__headers__") or {}, result["DXO"]
            task = headers.get("__task_name__")
            # A swarm's sites report what they have trained to the one that averages; the mean that is handed on has
            # nothing beside it. Of a task of the method's own no message of NVFlare's says which it is.
            tasks = method.own_tasks if task == METHOD_TASK else {TRAIN if task == SWARM_REPORT else str(task)}
            sent = set(dxo["meta"]) - FRAMEWORK_META
            if dxo["kind"] == "WEIGHTS":
                assert all(value == {"kind": "Tensor"} for value in dxo["data"].values())
            else:
                assert dxo["kind"] == "METRICS"
                sent |= set(dxo["data"]) - {"refused"}
            assert any(sent <= set(registry.of_task(item)) for item in tasks) or not sent, (task, sent)
            seen |= sent
            results += 1
            unknown = {name for name in headers if not name.startswith(SWARM_HEADERS_BEGIN)} - FRAMEWORK_HEADERS
            assert not unknown, (task, unknown)
            for properties in (headers.get("__peer_props__") or {}, _public_properties(headers)):
                assert set(properties) <= PEER_PROPERTIES, properties
    assert results >= len(SITES) * 2, "the recorder has seen the models"
    expected = {
        field.name
        for field in method.outbound_fields
        if not (ran.name in DECIDING and (field.optional or UNASKED.issuperset(field.tasks)))
    }
    assert expected - seen <= UNSEEN.get(ran.name, set())
    assert (MOVED_PATIENTS in seen) == (ran.name == "auto")


def _public_properties(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    context = headers.get("__peer_ctx__") or {}
    result: Mapping[str, Any] = context.get("props") or {}
    return result


def test_nvflares_own_messages_are_known(ran: Ran) -> None:
    for message in ran.messages:
        payload = message["payload"]
        if not isinstance(payload, dict):
            assert payload is None, payload
            continue
        if "DXO" in payload or any(True for _ in results_in(message)):
            continue
        assert set(payload) - {"__headers__"} in FRAMEWORK_PAYLOADS, payload


def test_no_message_holds_a_name_of_the_sites_files(ran: Ran, data_of: Callable[[str], Path]) -> None:
    data = data_of(ran.name)
    images = {path.name for site in SITES for path in (data / site / "images").iterdir()}
    assert images
    for message in ran.messages:
        text = json.dumps(message)
        assert str(data) not in text
        assert not any(image in text for image in images)
