"""What a method may declare: fields that the guard of what leaves a site can check, and halves that can be found."""

import pytest

from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods.fedavg.server import FedAvgServer
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.outbound.fields import OutboundField
from fedannot.custom.settings import SettingsError
from fedannot.custom.task_names import TRAIN, VALIDATE, VALIDATE_CLASSES

SERVER = "fedannot.custom.methods.fedavg.server:FedAvgServer"
SITE = "fedannot.custom.methods.fedavg.site:FedAvgSite"
COUNT = OutboundField("num_measured", ("measure",), "count", "patients behind the contrast")


def declared(*outbound_fields: OutboundField, server: str = SERVER, site: str = SITE) -> Method:
    return Method("contrast", "segmentation", FedAvgSettings, server, site, outbound_fields)


def field(kind: str, tasks: tuple[str, ...] = ("measure",), counted_by: str | None = None) -> OutboundField:
    return OutboundField("contrast", tasks, kind, "to weigh sites by it", counted_by)  # type: ignore[arg-type]


def test_its_own_tasks_are_those_of_its_fields_that_not_all_methods_have() -> None:
    flag = OutboundField("is_sharp", (TRAIN, "sharpen"), "flag", "whether the site has sharpened its images")
    assert declared(field("number", counted_by="num_measured"), COUNT, flag).own_tasks == {"measure", "sharpen"}
    assert declared().own_tasks == set()


@pytest.mark.parametrize("kind", ["model", "text"])
def test_a_model_beside_the_trained_one_or_anything_unknown_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=f"^Method 'contrast': field 'contrast' cannot be of kind '{kind}'\\.$"):
        declared(field(kind))


@pytest.mark.parametrize("task", [VALIDATE, VALIDATE_CLASSES])
def test_a_field_for_what_all_methods_are_asked_is_refused_but_for_training(task: str) -> None:
    with pytest.raises(ValueError, match=f"^Method 'contrast': field 'contrast' cannot go with the task '{task}'\\.$"):
        declared(field("flag", ("measure", task)))
    assert declared(field("flag", ("measure", TRAIN))).own_tasks == {"measure"}


@pytest.mark.parametrize("kind", ["number", "numbers"])
@pytest.mark.parametrize(
    ("tasks", "counted_by", "counter"),
    [
        (("measure",), None, COUNT),
        (("measure",), "num_cases", COUNT),
        # The field with their number does not go with every task of the number.
        (("measure", TRAIN), "num_measured", COUNT),
        # That of training says nothing of another task.
        (("measure",), "num_patients", COUNT),
        (("measure",), "num_measured", OutboundField("num_measured", ("measure",), "flag", "no number at all")),
    ],
)
def test_a_number_that_does_not_say_over_how_many_patients_it_is_is_refused(
    kind: str, tasks: tuple[str, ...], counted_by: str | None, counter: OutboundField
) -> None:
    with pytest.raises(
        ValueError, match=r"^Method 'contrast': field 'contrast' must name in 'counted_by' the declared"
    ):
        declared(field(kind, tasks, counted_by), counter)


@pytest.mark.parametrize("kind", ["number", "numbers"])
def test_a_number_may_be_counted_by_a_field_of_its_own_or_in_training_by_that_of_all_methods(kind: str) -> None:
    assert declared(field(kind, counted_by="num_measured"), COUNT).own_tasks == {"measure"}
    assert declared(field(kind, (TRAIN,), "num_patients")).own_tasks == set()


def test_halves_are_made_with_the_settings_of_the_job() -> None:
    settings = FedAvgSettings(seed=3)
    server, site = declared().server_part(settings), declared().site_part(settings)
    assert (type(server), type(site)) == (FedAvgServer, FedAvgSite)
    assert server.settings is site.settings is settings


def test_halves_are_imported_when_they_are_made() -> None:
    absent = declared(server="fedannot.nowhere:Server", site="fedannot.custom.methods.fedavg.site:Nobody")
    with pytest.raises(SettingsError, match=r"its half at the server, 'fedannot\.nowhere:Server', cannot be loaded"):
        absent.server_part(FedAvgSettings())
    with pytest.raises(SettingsError, match="Nobody"):
        absent.site_part(FedAvgSettings())
    confused = declared(server="fedannot.custom.methods.fedavg.site:FedAvgSite")
    with pytest.raises(SettingsError, match="is no half at the server"):
        confused.server_part(FedAvgSettings())


@pytest.mark.parametrize("name", ["", "a field", "params_type", "../up"])
def test_names_of_fields_are_plain(name: str) -> None:
    with pytest.raises(ValueError, match="is no plain name of a field or a task"):
        declared(OutboundField(name, (TRAIN,), "flag", "why"))


def test_settings_are_those_of_a_run() -> None:
    with pytest.raises(ValueError, match="expected a RunSettings"):
        Method("contrast", "segmentation", dict, SERVER, SITE)  # type: ignore[arg-type]
