"""Which model and which description of data a folder gives, and what is said where it gives none."""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from finished_runs import PICTURES, settings_of, write_run

from fedannot.apps.bundling.source import read_source
from fedannot.apps.reports.output import OutputError
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.data.description_values import description_values
from fedannot.custom.data.phantoms.choice import embedded_description
from fedannot.custom.evaluation.local_scores import LocalScores, ModelScores
from fedannot.custom.methods.decoupled.adaptation import LocalModel
from fedannot.transforms.errors import DataError

IMAGES = torch.randn(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))


def outputs(network: torch.nn.Module) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = network.eval()(IMAGES)
    return logits


def test_the_global_model_with_the_data_of_the_output_folder(tmp_path: Path) -> None:
    source = read_source(write_run(tmp_path / "run", settings_of("fedavg")))
    expected = torch.load(tmp_path / "run" / "model.pt", weights_only=True)["model"]
    assert all(torch.equal(tensor, expected[name]) for name, tensor in source.network.state_dict().items())
    assert (source.description, source.federation, source.site) == (PICTURES, "hospitals", None)
    assert source.summary is not None
    assert source.record is not None
    assert source.record.round == 12


def test_an_nvflare_workspace(tmp_path: Path) -> None:
    """The server's run folder, and the data beside it by the site's configuration."""
    run = write_run(tmp_path / "run", settings_of("fedavg"))
    server = tmp_path / "workspace" / "server" / "simulate_job"
    (server / "app_server").mkdir(parents=True)
    shutil.copyfile(run / "model.pt", server / "app_server" / "FL_global_model.pt")
    for name in ("summary.json", "metrics.jsonl"):
        shutil.copyfile(run / name, server / name)
    shutil.copytree(run / "data" / "site-1", tmp_path / "workspace" / "site-1" / "local")
    source, expected = read_source(tmp_path / "workspace"), read_source(run)
    assert torch.equal(outputs(source.network), outputs(expected.network))
    assert (source.description, source.federation) == (PICTURES, None)


def test_data_where_the_run_had_them(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg"), data=str(tmp_path / "elsewhere"))
    (run / "data").rename(tmp_path / "elsewhere")
    assert read_source(run).description == PICTURES
    (tmp_path / "elsewhere").rename(tmp_path / "gone")
    with pytest.raises(DataError, match=r"run: nothing in it says how .* were prepared; .* with --data FOLDER\.$"):
        read_source(run)
    assert read_source(run, data=tmp_path / "gone").federation == "hospitals"
    assert read_source(run, data=tmp_path / "gone" / "site-2").federation is None
    with pytest.raises(DataError, match=r"nowhere: found no data\.yaml there that says how"):
        read_source(run, data=tmp_path / "nowhere")


def test_data_that_sites_prepare_in_different_ways_are_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg"))
    other = PICTURES.model_copy(update={"labels": {0: 0, 255: 1}})
    write_site_description(run / "data" / "site-2", other)
    assert read_source(run).description == PICTURES, "label values are the files' own"
    write_site_description(run / "data" / "site-2", other.model_copy(update={"size": (48, 32)}))
    with pytest.raises(DataError, match=r"site-2/data\.yaml: differs from that of site-1 in size, so .* --data FOLDER"):
        read_source(run)
    assert read_source(run, data=run / "data" / "site-2").description.size == (48, 32)


def test_sites_may_differ_in_what_they_annotate_and_ignore(tmp_path: Path) -> None:
    """The description of a site that annotates all classes counts, whichever comes first."""
    settings = settings_of("fedavg", network={"num_classes": 2})
    two = PICTURES.model_copy(update={"classes": ("organ", "lesion"), "labels": {0: 0, 1: 1, 2: 2}})
    partial = {"labels": {0: 0, 1: 1}, "annotated_classes": ("organ",), "ignore": (255,)}
    run = write_run(tmp_path / "run", settings, two)
    write_site_description(run / "data" / "site-1", two.model_copy(update=partial))
    assert read_source(run).description == two


def test_data_that_do_not_fit_the_network_are_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg"), PICTURES.model_copy(update={"channels": 3}))
    with pytest.raises(DataError, match="describes 3 channels and 1 foreground classes"):
        read_source(run)


def without_data(folder: Path, **of_summary: Any) -> Path:
    """A run as it is downloaded from a federation: the server's files alone."""
    run = write_run(folder, settings_of("fedavg"), **of_summary)
    shutil.rmtree(run / "data")
    return run


def preparations(*descriptions: ImageDescription) -> dict[str, list[float | None]]:
    said = [description_values(description) or [] for description in descriptions]
    return {
        f"site-{number}": [None if math.isnan(value) else value for value in values]
        for number, values in enumerate(said, 1)
    }


def test_a_run_of_a_federation_says_itself_how_its_images_were_prepared(tmp_path: Path) -> None:
    other = PICTURES.model_copy(update={"classes": ("tumour",), "labels": {0: 0, 200: 1}})
    source = read_source(without_data(tmp_path / "run", preparations=preparations(PICTURES, other)))
    # Names of classes do not leave a site.
    assert source.description == PICTURES.model_copy(update={"classes": ("class 1",)})
    assert source.federation is None


def test_data_that_are_prepared_otherwise_than_in_the_run_are_refused(tmp_path: Path) -> None:
    """A file that was changed since, or the folder of other data."""
    run = write_run(tmp_path / "run", settings_of("fedavg"), preparations=preparations(PICTURES, PICTURES))
    assert read_source(run).description == PICTURES
    other = PICTURES.model_copy(update={"fit": "pad", "labels": {0: 0, 9: 1}})
    for site in ("site-1", "site-2"):
        write_site_description(run / "data" / site, other)
    with pytest.raises(
        DataError, match=r"site-1/data\.yaml: prepares images in other ways than site-1 did .*, in fit:"
    ):
        read_source(run)
    with pytest.raises(DataError, match="in fit:"):
        read_source(run, data=run / "data" / "site-2")
    write_site_description(run / "data" / "site-1", PICTURES)
    assert read_source(run, data=run / "data" / "site-1").description == PICTURES
    # Sites that differ may each be chosen.
    both = write_run(tmp_path / "both", settings_of("fedavg"), preparations=preparations(PICTURES, other))
    write_site_description(both / "data" / "site-2", other)
    assert read_source(both, data=both / "data" / "site-2").description.fit == "pad"


def test_sites_that_report_to_prepare_images_in_other_ways_are_named(tmp_path: Path) -> None:
    said = preparations(PICTURES, PICTURES.model_copy(update={"size": (48, 32)}))
    with pytest.raises(DataError, match=r"site-2 prepare images in other ways than site-1, .* --data FOLDER"):
        read_source(without_data(tmp_path / "run", preparations=said))


@pytest.mark.parametrize("said", [None, {}, preparations(PICTURES)])
def test_if_a_site_says_nothing_data_have_to_be_named(said: dict[str, Any] | None, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing in it says how .* with --data FOLDER"):
        read_source(without_data(tmp_path / "run", preparations=said))


def test_what_sites_report_has_to_fit_the_network(tmp_path: Path) -> None:
    said = preparations(*[PICTURES.model_copy(update={"channels": 3})] * 2)
    with pytest.raises(DataError, match="what the sites report describes 3 channels"):
        read_source(without_data(tmp_path / "run", preparations=said))
    broken = {site: [9.0, *values[1:]] for site, values in said.items()}
    with pytest.raises(DataError, match=r"found \[9\.0\] for 'pipeline'"):
        read_source(without_data(tmp_path / "broken", preparations=broken))


def test_of_generated_images_the_generator_says_how(tmp_path: Path) -> None:
    sites = {site: {"num_samples": 3, "embedded_data": True} for site in ("site-1", "site-2")}
    run = without_data(tmp_path / "run", sites=sites)
    assert read_source(run).description == embedded_description(settings_of("fedavg").embedded)
    mixed = {**sites, "site-2": {"num_samples": 3, "embedded_data": False}}
    with pytest.raises(DataError, match="nothing in it says how"):
        read_source(without_data(tmp_path / "mixed", sites=mixed))


def test_data_that_the_settings_name_are_found(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg", data=str(tmp_path / "moved")))
    (run / "data").rename(tmp_path / "moved")
    source = read_source(run)
    assert (source.description, source.federation) == (PICTURES, "hospitals")


@pytest.mark.parametrize(
    ("method", "part", "changes"),
    [
        ("fedcurv", "curvature.", {}),
        ("rmd", "second_network.", {}),
        (
            "fedavg",
            "control_variates.",
            {"drift_correction": "scaffold", "training": {"optimizer": "sgd", "momentum": 0.0}},
        ),
    ],
)
def test_what_training_remembers_is_left_out(method: str, part: str, changes: dict[str, Any], tmp_path: Path) -> None:
    source = read_source(write_run(tmp_path / "run", settings_of(method, **changes)))
    stored = torch.load(tmp_path / "run" / "model.pt", weights_only=True)["model"]
    assert any(name.startswith(part) for name in stored)
    assert set(source.network.state_dict()) == {name for name in stored if not name.startswith(part)}


@pytest.mark.parametrize("method", ["decoupled", "fedrep", "ditto", "single_site"])
def test_every_site_has_its_own_model(method: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of(method, **({"warmup_rounds": 2} if method == "decoupled" else {})))
    one, other = (read_source(run, site=site) for site in ("site-1", "site-2"))
    assert (one.site, other.site) == ("site-1", "site-2")
    assert not torch.equal(outputs(one.network), outputs(other.network))
    assert isinstance(one.network, LocalModel) == (method == "decoupled")


@pytest.mark.parametrize("method", ["fedrep", "single_site"])
def test_what_is_no_model_by_itself_is_refused(method: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of(method))
    with pytest.raises(DataError, match=f"sites of '{method}' share is no model by itself; .* --site SITE"):
        read_source(run)


def test_a_sites_own_workspace_is_enough(tmp_path: Path) -> None:
    """As at a hospital: no server's files, the site's configuration, and the scores that the site measured."""
    run = write_run(tmp_path / "run", settings_of("decoupled", warmup_rounds=2))
    workspace = shutil.copytree(run / "run" / "site-2", tmp_path / "site-2")
    shutil.copytree(run / "data" / "site-2", workspace / "local")
    scores = LocalScores(num_cases=4, models={"local": ModelScores(dice=0.5, hd95=2.0)})
    file = workspace / "private" / "simulate_job" / "personal" / "local_scores.json"
    file.write_text(json.dumps(scores.model_dump()), encoding="utf-8")
    source, expected = read_source(workspace, site="site-2"), read_source(run, site="site-2")
    assert torch.equal(outputs(source.network), outputs(expected.network))
    assert (source.summary, source.description, source.local_scores) == (None, PICTURES, scores)
    # The shared part came to the site after the last round.
    assert torch.equal(outputs(read_source(workspace).network), outputs(read_source(run).network))


@pytest.mark.parametrize("place", [".", "simulate_job", "private/simulate_job"])
def test_a_job_s_folder_and_the_site_s_own_one_of_the_job_are_one_place(tmp_path: Path, place: str) -> None:
    run = write_run(tmp_path / "run", settings_of("ditto"))
    result = read_source(run / "run" / "site-2" / place, run / "data" / "site-2", site="site-2")
    assert torch.equal(outputs(result.network), outputs(read_source(run, site="site-2").network))


def test_a_run_of_an_earlier_version_has_its_files_in_the_job_s_folder(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("ditto"))
    expected = outputs(read_source(run, site="site-2").network)
    workspace = run / "run" / "site-2"
    (workspace / "private" / "simulate_job" / "personal").rename(workspace / "simulate_job" / "personal")
    assert torch.equal(outputs(read_source(run, site="site-2").network), expected)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("ditto"))
    with pytest.raises(DataError, match=r"found no model of 'site-9' alone, .* Here are those of: site-1, site-2\."):
        read_source(run, site="site-9")
    shutil.copytree(run / "run" / "site-1", run / "run" / "again" / "site-1")
    with pytest.raises(DataError, match=r"found 2 runs with a model of 'site-1'; give one of the folders .*again"):
        read_source(run, site="site-1")
    plain = write_run(tmp_path / "plain", settings_of("fedavg"))
    with pytest.raises(DataError, match=r"found no model of 'site-1' alone, .* Here are those of: no site\."):
        read_source(plain, site="site-1")


def test_folders_without_a_run_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        OutputError, match=re.escape(f"{tmp_path}: found neither summary.json nor a site's local_model")
    ):
        read_source(tmp_path)
    with pytest.raises(DataError, match="nowhere: found no such folder; expected a run's output folder"):
        read_source(tmp_path / "nowhere")
