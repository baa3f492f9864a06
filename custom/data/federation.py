"""What describes a federation on disk: `federation.yaml` next to the folders of its sites."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ...transforms.errors import DataError
from .description import DESCRIPTION_FILE
from .yaml_file import YamlContent, read_values, validated, write_values

FEDERATION_FILE = "federation.yaml"
MANIFEST_FILE = "manifest.json"
TEST_FOLDER = "test"
# How the description begins of what was made from generated images.
PHANTOM = "phantom"

_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class FederationDescription(YamlContent):
    """The content of ``federation.yaml``.

    Args:
        name: what the federation is called.
        task: what is learnt.
        sites: names of the sites in their order; each is a folder next to the file.
        noise: the annotation noise that was added, as text.
        made: how the federation was made, for the reader.
        patients_parted: whether cases of a patient were dealt out to several sites, so that a name is the same patient
            at all of them; None where names count within a site.
    """

    name: str
    task: Literal["segmentation", "classification"] = "segmentation"
    sites: Annotated[tuple[str, ...], Field(min_length=1)]
    noise: str | None = None
    made: str | None = None
    patients_parted: bool | None = None

    @property
    def is_generated(self) -> bool:
        """Whether its images were generated, also where noise was added to the annotations later."""
        return self.made is not None and self.made.startswith(f"{PHANTOM} ")

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


def read_federation(folder: Path) -> FederationDescription:
    """Read ``federation.yaml`` and check that every site is there.

    Raises:
        DataError: if the file is missing, has a wrong key or value, or names a site without a ``data.yaml``.

    Example:
        >>> from fedannot.custom import LesionImages, write_phantom_federation
        >>> write_phantom_federation(Path("two"), LesionImages(), num_sites=2, images_per_site=1, test_images=1)
        >>> read_federation(Path("two")).task
        'segmentation'
    """
    file = folder / FEDERATION_FILE
    if not file.is_file():
        what = "no such file" if folder.is_dir() else "no such folder"
        raise DataError(
            f"{file}: found {what}; expected a federation's folder. `fedannot data import` makes one of images, "
            "`fedannot data phantom` one of generated images."
        )
    federation = validated(read_values(file, FederationDescription), FederationDescription, str(file))
    missing = [site for site in federation.sites if not (folder / site / DESCRIPTION_FILE).is_file()]
    if missing:
        raise DataError(
            f"{file}: key 'sites' names {', '.join(missing)}; expected a folder with a "
            f"{DESCRIPTION_FILE} for each of them in {folder}."
        )
    return federation


def write_federation(folder: Path, federation: FederationDescription) -> None:
    """Write ``federation.yaml``."""
    write_values(folder / FEDERATION_FILE, federation.model_dump(mode="json", exclude_none=True))
