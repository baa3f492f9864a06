"""What describes a federation on disk: `federation.yaml` of the whole and `data.yaml` of each site."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ...transforms.errors import DataError, describe_validation_error

FEDERATION_FILE = "federation.yaml"
DESCRIPTION_FILE = "data.yaml"
DATALIST_FILE = "datalist.json"
MANIFEST_FILE = "manifest.json"
TEST_FOLDER = "test"

_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _Description(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SiteDescription(_Description):
    """The content of ``data.yaml``: which pipeline reads a site's images, and what the values in its masks mean.

    Args:
        pipeline: ``image2d``, images with masks of the same size.
        channels: 1 for grey, 3 for RGB; images are converted.
        size: rows and columns that every image is resized to.
        labels: value in a mask file → class, 0 for background.
        classes: names of the foreground classes 1, 2, ….
        datalist: the MONAI datalist, relative to ``data.yaml``; its paths are relative to itself.
    """

    pipeline: Literal["image2d"] = "image2d"
    channels: Literal[1, 3]
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
    labels: dict[int, Annotated[int, Field(ge=0, le=255)]]
    classes: Annotated[tuple[str, ...], Field(min_length=1)]
    datalist: str = DATALIST_FILE

    @model_validator(mode="after")
    def _labels_fit_classes(self) -> "SiteDescription":
        wanted, found = set(range(len(self.classes) + 1)), set(self.labels.values())
        if found != wanted:
            raise ValueError(
                f"key 'labels' leads to the classes {sorted(found)}, expected 0 (background) and one for each of "
                f"'classes' {list(self.classes)}: {sorted(wanted)}"
            )
        return self


class FederationDescription(_Description):
    """The content of ``federation.yaml``.

    Args:
        name: what the federation is called.
        task: ``segmentation``.
        sites: names of the sites in their order; each is a folder beside the file.
        noise: the annotation noise that was added, as text.
        made: how the federation was made, for the reader.
    """

    name: str
    task: Literal["segmentation"] = "segmentation"
    sites: Annotated[tuple[str, ...], Field(min_length=1)]
    noise: str | None = None
    made: str | None = None

    @field_validator("sites")
    @classmethod
    def _names_are_folders(cls, sites: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [site for site in sites if not _SITE_NAME.fullmatch(site) or site == TEST_FOLDER]
        if wrong:
            raise ValueError(
                f"site names are letters, digits, '.', '_' and '-', and not {TEST_FOLDER!r}, found {wrong}"
            )
        if len(set(sites)) != len(sites):
            raise ValueError("site names must differ")
        return sites


Description = TypeVar("Description", bound=_Description)


def read_federation(folder: Path) -> FederationDescription:
    """Read ``federation.yaml`` and check that every site is there.

    Raises:
        DataError: if the file is missing, has a wrong key or value, or names a site without a ``data.yaml``.
    """
    federation = _read(folder / FEDERATION_FILE, FederationDescription)
    missing = [site for site in federation.sites if not (folder / site / DESCRIPTION_FILE).is_file()]
    if missing:
        raise DataError(
            f"{folder / FEDERATION_FILE}: key 'sites' names {', '.join(missing)}; expected a folder with a "
            f"{DESCRIPTION_FILE} for each of them in {folder}."
        )
    return federation


def read_site_description(folder: Path) -> SiteDescription:
    """Read a site's ``data.yaml``.

    Raises:
        DataError: if the file is missing or has a wrong key or value.
    """
    return _read(folder / DESCRIPTION_FILE, SiteDescription)


def write_federation(folder: Path, federation: FederationDescription) -> None:
    """Write ``federation.yaml``."""
    _write(folder / FEDERATION_FILE, federation)


def write_site_description(folder: Path, description: SiteDescription) -> None:
    """Write a site's ``data.yaml``."""
    _write(folder / DESCRIPTION_FILE, description)


def _read(file: Path, kind: type[Description]) -> Description:
    if not file.is_file():
        raise DataError(f"{file}: found no such file; expected one with the keys {', '.join(kind.model_fields)}.")
    try:
        values: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: is not YAML ({' '.join(str(error).split())}).") from error
    if not isinstance(values, dict):
        found = "nothing" if values is None else repr(values)
        raise DataError(f"{file}: found {found}; expected the keys {', '.join(kind.model_fields)}.")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=kind)) from error


def _write(file: Path, description: _Description) -> None:
    values = description.model_dump(mode="json", exclude_defaults=False, exclude_none=True)
    # JSON has text keys only; the label values are numbers.
    if isinstance(description, SiteDescription):
        values["labels"] = dict(description.labels)
    file.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
