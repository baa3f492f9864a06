"""What `fedannot data import` can be asked for: its options, with their help."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class VolumePipelineName(StrEnum):
    """The pipelines of volumes."""

    SLICES = "volume_slices"
    WHOLE = "volume"


class FitName(StrEnum):
    """How images reach their size."""

    RESIZE = "resize"
    CROP = "crop"
    PAD = "pad"


class MissingChannelsName(StrEnum):
    """What becomes of an image that lacks a channel."""

    REFUSE = "refuse"
    ZEROS = "zeros"


class CropName(StrEnum):
    """Where a crop lies."""

    CENTRE = "centre"
    FOREGROUND = "foreground"


Images = Annotated[Path | None, typer.Option(help="Folder of images: 2D images, volumes or DICOM folders.")]
Labels = Annotated[
    Path | None,
    typer.Option(help="Folder of masks with the names of their images; the same folder where names tell them apart."),
]
LabelSuffix = Annotated[str, typer.Option(help="What masks' names have behind, '_segmentation'; a number may follow.")]
ImageSuffix = Annotated[str, typer.Option(help="What images' names have that their masks' lack, '_ct'.")]
LabelInclude = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Masks are files of such names, '*_mask*'; may repeat.")
]
ClassFolders = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder with a folder of images for every class.")
]
ClassesCsv = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Table with a row for every image; the images are in --images."),
]
ImageColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Its column of images: paths or names, with suffix or without.")
]
ClassColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Its column of classes.")]
GroupColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Its column of patients.")]
SourceColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Its column of centres.")]
Datalist = Annotated[Path | None, typer.Option(help="JSON file with a list of cases, in place of folders.")]
Key = Annotated[str | None, typer.Option(help="Name of the list in the datalist.")]
Dataset = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=DIR", help="A public data set as it is published (docs/datasets.md); may repeat."),
]
Sites = Annotated[
    str,
    typer.Option(
        metavar="SITES", help="8, 'by-source' (a site of every source), '2-per-source', '50-by-source' (in all)."
    ),
]
Test = Annotated[
    float | None, typer.Option(help="Fraction of the cases for the common test set; default: as published, or 0.2.")
]
Validation = Annotated[float, typer.Option(help="Fraction of each site's cases for its validation.")]
TestSource = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Draw the common test set from this source alone, 'utah'; may repeat."),
]
PartPatients = Annotated[
    bool,
    typer.Option(
        "--part-patients",
        help="Deal cases out one by one, whatever their patient or video: patients are trained on and tested with.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Finds the patient in an image's name, else in its path, '(patient[0-9]+)'; patients stay together.",
    ),
]
Source = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Finds the centre in an image's name, else in its path, '^([^/]+)/'."),
]
UniteMasks = Annotated[
    bool,
    typer.Option(
        "--unite-masks", help="Several masks of an image are parts of one annotation, also where they overlap."
    ),
]
Annotators = Annotated[
    str | None,
    typer.Option(
        metavar="by-suffix|by-folder|COLUMN",
        help="Keep the masks of several annotators, named behind the image's name or by their folder; or the column of "
        "annotators of --classes-csv.",
    ),
]
Include = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Take only images of such names; may repeat.")
]
LabelMap = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE:CLASS,…",
        help="Meaning of mask values, '255:1'; of ranges, '128-255:1', below which is background; or of colours, "
        "'#ff0000:1'. Default: as found.",
    ),
]
Ignore = Annotated[
    str | None,
    typer.Option(metavar="VALUE,…", help="Mask values of pixels that count nowhere: neither background nor a class."),
]
Instances = Annotated[bool, typer.Option("--instances", help="Values in masks number objects, all of one class.")]
TrustVoxels = Annotated[
    bool,
    typer.Option(
        "--trust-voxels",
        help="Masks of the size of their images lie where these lie, whatever their headers say; not if turned.",
    ),
]
RoundLabels = Annotated[
    bool,
    typer.Option("--round-labels", help="Round label values that are not quite whole numbers, such as 0.9999."),
]
Classes = Annotated[
    str | None,
    typer.Option(metavar="NAME,…", help="Names of the classes, of RTSTRUCT those of its regions; default: as found."),
]
Channels = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|NAME,…",
        help="1 for grey, 3 for RGB, or the names of several channels, 'T1,FLAIR'; default: as found.",
    ),
]
MissingChannels = Annotated[
    MissingChannelsName | None,
    typer.Option(help="What becomes of an image that lacks the file of a channel; default: refuse."),
]
Pipeline = Annotated[VolumePipelineName | None, typer.Option(help="Volumes whole or as slices; default: whole.")]
Size = Annotated[
    str | None,
    typer.Option(metavar="ROWS,COLUMNS", help="Size of 2D images and slices; of volumes three extents or none."),
]
Spacing = Annotated[
    str | None,
    typer.Option(metavar="MM,MM,MM", help="Voxel size that volumes are resampled to; default: their own."),
]
Orientation = Annotated[str | None, typer.Option(metavar="RAS", help="Directions of the axes of volumes.")]
Fit = Annotated[
    FitName | None,
    typer.Option(
        help="How the size is reached: stretched, cut around the centre, or scaled and padded; default: 2D images "
        "resize, volumes crop."
    ),
]
AllowCut = Annotated[
    float, typer.Option(metavar="FRACTION", help="Fraction of the annotated voxels that a crop may cut off.")
]
Crop = Annotated[CropName | None, typer.Option(help="Where volumes are cropped to the size.")]
Window = Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="CT window; default: z-score of each volume.")]
SliceAxis = Annotated[int | None, typer.Option(help="Axis that volumes are cut across; default: 2.")]
Stride = Annotated[int | None, typer.Option(help="Train on one of so many slices; default: on all.")]
EmptySlices = Annotated[
    float | None,
    typer.Option(metavar="FRACTION", help="Of the slices without annotation, train on this fraction; default: on all."),
]
