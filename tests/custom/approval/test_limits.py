"""Settings of deployed jobs: every text and every number of every method is bounded."""

import math
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.approval.limits import DEFAULT_LIMITS, TEXTS, Limits, TextRefusedError, check_settings
from fedannot.custom.components.component import Component
from fedannot.custom.methods.lookup import all_methods
from fedannot.custom.settings import RunSettings

JOB_ID = "01234567-89ab-cdef-0123-456789abcdef"
KINDS = sorted({method.settings for method in all_methods()}, key=lambda kind: kind.__name__)


def settings(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"method": "fedavg", "data_required": True}
    for key, value in changes.items():
        block, _, name = key.rpartition("__")
        (values.setdefault(block, {}) if block else values)[name] = value
    return values


def leaf_types(annotation: Any) -> Iterator[Any]:
    """The types of single values that an annotation allows; those with a list of allowed values are left out."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from leaf_types(typing.get_args(annotation)[0])
    elif origin is typing.Literal:
        return
    elif origin in (typing.Union, types.UnionType, tuple, list):
        for argument in typing.get_args(annotation):
            yield from leaf_types(argument)
    elif annotation not in (type(None), Ellipsis):
        yield annotation


def fields(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in kind.model_fields.items():
        for leaf in leaf_types(field.annotation):
            if leaf is Component:
                # Its numbers and texts have limits of their own: see test_job_components.py.
                continue
            if isinstance(leaf, type) and issubclass(leaf, BaseModel):
                yield from fields(leaf, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", leaf


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_free_text_of_every_method_is_known(kind: type[RunSettings]) -> None:
    """A new setting that could hold a path has to be decided about."""
    result = dict(fields(kind))
    assert len(result) > 20
    texts = {key for key, leaf in fields(kind) if leaf is str}
    # The method's name is one of those that exist.
    assert texts - {"method", "task"} <= set(TEXTS) == set(TextRefusedError.EXPECTED)
    assert {leaf for _, leaf in fields(kind)} <= {str, int, float, bool}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_whole_number_of_every_method_has_a_limit_of_its_own(kind: type[RunSettings]) -> None:
    """Whole numbers are what a site has to do: rounds, widths, epochs."""
    assert {key for key, leaf in fields(kind) if leaf is int} <= set(DEFAULT_LIMITS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": "/home"}, "'data' is '/home'; expected nothing"),
        ({"resume_from": "/kit/state.pt"}, "expected the id of an earlier job"),
        ({"resume_from": f"../{JOB_ID}"}, "expected the id of an earlier job"),
        ({"start_model": "/kit/startup/client.key"}, "expected the name of a model"),
        ({"start_model": ".."}, "expected the name of a model"),
        ({"start_model": "{$HOME}"}, "expected the name of a model"),
        ({"data_required": False}, "sites train on their own data"),
        ({"blocks": ["{$FEDANNOT_DATA}"]}, "expected prefixes of parameters"),
        ({"blocks": ["${secret:x}"]}, "expected prefixes of parameters"),
        ({"blocks": ["conv"] * 201}, "has 201 entries; at most 200"),
        ({"embedded__noise": "M(25,-25,10,0.25)"}, ""),
        ({"rounds": 10**9}, "The setting 'rounds' is 1000000000; at most 2000"),
        ({"rounds": 10**400}, "rounds"),
        ({"threads": 4096}, "'threads' is 4096; at most 64"),
        ({"training__batch_size": 10**6}, "'training.batch_size' is 1000000;"),
        ({"training__local_epochs": 10**6}, "'training.local_epochs' is 1000000;"),
        ({"training__learning_rate": 1e300}, "'training.learning_rate' is 1e+300"),
        ({"network__features": [2000] * 6}, "'network.features' is 2000; at most 1024"),
        ({"task_timeout": 10**9}, "'task_timeout' is 1000000000"),
        ({"embedded__images_per_site": 10**7}, "'embedded.images_per_site' is 10000000"),
        ({"no_such_setting": 1}, "no_such_setting"),
        ({"method": "subprocess.Popen"}, "key 'method' is 'subprocess.Popen'"),
        ({"task": {"path": "subprocess.Popen"}}, "key 'task' is"),
    ],
)
def test_what_a_site_does_not_do(changes: dict[str, Any], said: str) -> None:
    if not said:
        check_settings(settings(**changes), Limits())
        return
    with pytest.raises(JobRefusedError) as caught:
        check_settings(settings(**changes), Limits())
    assert said in str(caught.value)


def test_what_a_site_does() -> None:
    result = check_settings(settings(rounds=2000, resume_from=JOB_ID, start_model="bundle-3.1"), Limits())
    assert (result.rounds, result.resume_from, result.start_model) == (2000, JOB_ID, "bundle-3.1")


def test_a_site_has_limits_of_its_own() -> None:
    strict, generous = Limits(largest={"rounds": 5}), Limits(largest={"rounds": math.inf})
    with pytest.raises(JobRefusedError, match="'rounds' is 6; at most 5"):
        check_settings(settings(rounds=6), strict)
    assert check_settings(settings(rounds=10**6), generous).rounds == 10**6


def test_transforms_are_limited_by_the_packages_that_are_allowed() -> None:
    entry = {"_target_": "RandFlipd", "keys": ["image", "label"]}
    values = settings(training__augmentation=[entry])
    check_settings(values, Limits(components=("monai.transforms",)))
    text = "'training.augmentation._target_' is 'monai.transforms.RandFlipd'; allowed here are classes of monai.losses"
    with pytest.raises(JobRefusedError, match=text):
        check_settings(values, Limits(components=("monai.losses",)))
