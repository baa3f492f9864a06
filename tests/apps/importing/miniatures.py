"""Miniatures of public data sets: the folders and file names of the real ones, a few pixels in each file."""

import csv
import io
import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import nibabel
import numpy as np
import SimpleITK as sitk
from PIL import Image

_VOXELS = np.zeros((4, 4, 2), np.uint8)
_VOXELS[1, 1, 1] = 1
_MASK = np.pad(np.full((2, 2), 255, np.uint8), 3)


def picture(file, mode="RGB"):
    """Write an image; the suffix decides on the format."""
    _write(file, _picture_bytes(file.suffix.lower(), mode))


def mask(file):
    """Write a mask with the values 0 and 255."""
    _write(file, _picture_bytes(file.suffix.lower(), "mask"))


def volume(*files):
    """Write NIfTI or NRRD volumes."""
    for file in files:
        _write(file, _volume_bytes("".join(file.suffixes)))


def _write(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@cache
def _picture_bytes(suffix, mode):
    image = Image.fromarray(_MASK) if mode == "mask" else Image.new(mode, (8, 8), 100)
    stream = io.BytesIO()
    image.save(stream, Image.registered_extensions()[suffix])
    return stream.getvalue()


@cache
def _volume_bytes(suffix):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"volume{suffix}"
        if suffix == ".nrrd":
            sitk.WriteImage(sitk.GetImageFromArray(_VOXELS.T), str(file))
        else:
            nibabel.save(nibabel.Nifti1Image(_VOXELS, np.eye(4)), file)
        return file.read_bytes()


def text(file, content):
    """Write a text, or what can be JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_CONTENT = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def workbook(file, sheet_data, *, strings="", before="", prolog="", more=()):
    """Write a workbook as Excel does; its first sheet is not the first file.

    `sheet_data` is what is in the sheet's element of that name, `before` what stands before it, `strings` the items of
    the table of texts, `more` further parts by name.
    """

    def sheet_xml(inside):
        return f"{prolog}<worksheet {_MAIN}>{before}<sheetData>{inside}</sheetData></worksheet>"

    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        + "".join(
            f'<Override PartName="/xl/{name}.xml" ContentType="{_CONTENT}.{kind}+xml"/>'
            for name, kind in (
                ("workbook", "sheet.main"),
                ("sharedStrings", "sharedStrings"),
                ("worksheets/sheet1", "worksheet"),
                ("worksheets/sheet7", "worksheet"),
            )
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_RELATIONS}"><sheets>'
        '<sheet name="Sheet1" sheetId="1" r:id="rId3"/><sheet name="Sheet2" sheetId="2" r:id="rId1"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="rId3" Type="{_RELATIONS}/worksheet" Target="worksheets/sheet7.xml"/></Relationships>',
        "xl/sharedStrings.xml": f"<sst {_MAIN}>{strings}</sst>",
        "xl/worksheets/sheet1.xml": sheet_xml(""),
        "xl/worksheets/sheet7.xml": sheet_xml(sheet_data),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in (parts | dict(more)).items():
            archive.writestr(name, part)


def sheet(file, rows):
    """Write rows of texts and numbers as Excel does: texts in a table of their own, empty cells left out."""
    strings = sorted({cell for row in rows for cell in row if isinstance(cell, str) and cell})

    def cell(row, column, value):
        reference = f"{chr(ord('A') + column)}{row + 1}"
        if isinstance(value, str):
            return f'<c r="{reference}" t="s"><v>{strings.index(value)}</v></c>' if value else ""
        return f'<c r="{reference}"><v>{value}</v></c>'

    body = "".join(
        f'<row r="{index + 1}">{"".join(cell(index, column, value) for column, value in enumerate(row))}</row>'
        for index, row in enumerate(rows)
    )
    items = (
        f"<si><r><t>{string[:2]}</t></r><r><rPr/><t>{string[2:]}</t></r><rPh sb='0' eb='1'><t>spoken</t></rPh></si>"
        for string in strings
    )
    workbook(file, body, strings="".join(items))


def comma_separated(file, rows):
    """Write rows as CSV."""
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)
    text(file, lines.getvalue())


def isic2017(root):
    for section, number in (("Training", 0), ("Training", 2), ("Validation", 1769), ("Test_v2", 12086)):
        name = f"ISIC_{number:07d}"
        images = root / f"ISIC-2017_{section}_Data"
        picture(images / f"{name}.jpg")
        picture(images / f"{name}_superpixels.png")
        mask(root / f"ISIC-2017_{section}_Part1_GroundTruth" / f"{name}_segmentation.png")
        text(root / f"ISIC-2017_{section}_Part2_GroundTruth" / f"{name}_features.json", {"streaks": [0]})
        text(root / f"ISIC-2017_{section}_Part3_GroundTruth.csv", "image_id,melanoma,seborrheic_keratosis\n")
        text(images / f"ISIC-2017_{section}_Data_metadata.csv", "image_id,age_approximate,sex\n")


def busi(root):
    root = root / "Dataset_BUSI_with_GT"
    for name in ("benign (1)", "benign (2)", "benign (100)", "malignant (1)", "normal (1)"):
        picture(root / name.split()[0] / f"{name}.png")
        mask(root / name.split()[0] / f"{name}_mask.png")
    for further in ("benign (100)_mask_1", "benign (100)_mask_2", "malignant (1)_mask_1"):
        mask(root / further.split()[0] / f"{further}.png")


def busis(root):
    for number in (1, 2, 10):
        picture(root / "Original" / f"case{number}.png", "L")
        mask(root / "GT" / f"case{number}_GT.bmp")
    text(root / "BUSIS562.csv", "img name,Ground Truth Name,tumor type\ncase001,case001_GT,B\n")


def udiat(root):
    for number in (1, 2, 10):
        picture(root / "BUS" / "original" / f"{number:06d}.png", "L")
        mask(root / "BUS" / "GT" / f"{number:06d}.png")
    sheet(root / "BUS" / "DatasetB.xlsx", [["Image", "Type"], [1, "Benign"]])


def msseg1(root):
    for section, centre, number in (("Training", 1, 1), ("Training", 7, 1), ("Testing", 1, 1), ("Testing", 3, 2)):
        patient = root / section / f"Center_{centre:02d}" / f"Patient_{number:02d}"
        volume(*(patient / "Raw_Data" / f"{name}.nii.gz" for name in ("FLAIR", "T1")))
        volume(*(patient / "Preprocessed_Data" / f"{name}_preprocessed.nii.gz" for name in ("FLAIR", "T2", "DP")))
        raters = [f"ManualSegmentation_{rater}" for rater in range(1, 8)]
        volume(*(patient / "Masks" / f"{name}.nii.gz" for name in ("Consensus", "Brain_Mask", *raters)))


def ljubljana_ms(root):
    for number in (1, 2, 10):
        patient = f"patient{number:02d}"
        folder = root / f"patient{number // 6 * 5 + 1:02d}-{number // 6 * 5 + 5:02d}" / patient
        for modality in ("FLAIR", "T1W", "T1WKS", "T2W"):
            volume(folder / f"{patient}_{modality}.nii.gz", folder / "raw" / f"{patient}_{modality}.nii.gz")
        volume(folder / f"{patient}_brainmask.nii.gz", folder / f"{patient}_consensus_gt.nii.gz")
        text(folder / f"{patient}_T1W_to_FLAIR.txt", "1 0 0 0\n")


def mama_mia(root):
    for name in ("DUKE_001", "ISPY1_1001", "NACT_02"):
        volume(*(root / "images" / name / f"{name}_{phase:04d}.nii.gz" for phase in range(3)))
        volume(*(root / "segmentations" / kind / f"{name}.nii.gz" for kind in ("expert", "automatic")))
    text(root / "train_test_splits.csv", "train_split,test_split\nDUKE_001,NACT_02\n")


def riga(root):
    for folder in ("BinRushed/BinRushed1", "BinRushed/BinRushed1-Corrected", "Magrabia/MagrabiFemale", "MESSIDOR"):
        for name in ("image1prime.jpg", "image1-1.jpg", "image1-6.jpg", "image2-1.jpg"):
            picture(root / folder / name)


def gleason_xai(root):
    for name in ("PR633a_A1", "PR633a_A2", "ZT80_38_A_1_1"):
        for scale in ("original", "MicronsCalibrated"):
            picture(root / "TMA" / scale / f"{name}.jpg")
    groups = {"3": {"single glands": ["a"]}, "4": {"fused glands": ["b"]}, "5": {"cells": ["c", "d"]}}
    text(root / "label_remapping.json", json.dumps({"hierarchy": groups}))
    triangle = json.dumps([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75]])
    rows = [
        ("PR633a_A1", "ann", "4", "b", triangle),
        ("PR633a_A1", "ann", "3", "a", json.dumps([[0, 0], [1, 0], [1, 1], [0, 1]])),
        ("PR633a_A1", "bo", "5", "cells", triangle),
        ("ZT80_38_A_1_1", "ann", "3", "a", triangle),
        ("PR633a_A2", "ann", "3", "a", "[[0, 0], [1, 1]]"),
        ("lost", "ann", "3", "a", triangle),
    ]
    header = ("TMA_identifier", "annotator", "grade", "explanations", "coords")
    comma_separated(root / "final_filtered_explanations_df.csv", [header, *rows])


def lidc_idri(root):
    for scan in ("0001a", "0002a", "0002b", "0003a"):
        volume(root / scan / f"{scan}_ct_scan.nrrd")
    for name in ("0001a_1_00000000_00000000", "0001a_1_00000001_00000001", "0001a_3_00000002_00000000"):
        volume(root / "0001a" / f"{name}.nii.gz")
    volume(root / "0001a" / "planar_masks" / "0001a_1_00000000_0.nrrd")
    volume(*(root / scan / f"{scan}_2_00000007_00000007.nii.gz" for scan in ("0002a", "0002b", "0009a")))


def covid1920(root):
    root = root / "COVID-19-20_v2"
    for number in ("0003", "0011", "0698"):
        volume(*(root / "Train" / f"volume-covid19-A-{number}_{kind}.nii.gz" for kind in ("ct", "seg")))
    volume(root / "Validation" / "volume-covid19-A-0007_ct.nii.gz")


def la2018(root):
    for section, case in (("Training", "CASE_B"), ("Training", "CASE_A"), ("Testing", "CASE_C")):
        folder = root / "2018_UTAH_MICCAI" / f"{section} Set" / case
        volume(*(folder / name for name in ("lgemri.nrrd", "laendo.nrrd", "lawall.nrrd")))


def isbi2012_la(root):
    for number in (1, 2, 10):
        for time, letter in (("pre", "a"), ("post", "b")):
            folder = root / time / f"p{number}"
            volume(*(folder / f"{kind}_{letter}_{number}.nrrd" for kind in ("de", "la_seg", "mra")))


def msd(root):
    root = root / "Task04_Hippocampus"
    names = ("hippocampus_001", "hippocampus_004")
    for name in names:
        volume(root / "imagesTr" / f"{name}.nii.gz", root / "labelsTr" / f"{name}.nii.gz")
    volume(root / "imagesTs" / "hippocampus_002.nii.gz")
    content = {
        "name": "Hippocampus",
        "tensorImageSize": "3D",
        "modality": {"0": "MRI"},
        "labels": {"0": "background", "1": "Anterior", "2": "Posterior"},
        "numTraining": 2,
        "training": [{"image": f"./imagesTr/{name}.nii.gz", "label": f"./labelsTr/{name}.nii.gz"} for name in names],
        "test": ["./imagesTs/hippocampus_002.nii.gz"],
    }
    text(root / "dataset.json", content)


def nnunet(root):
    root = root / "Dataset501_Hippocampus"
    for part, names in (("Tr", ("hippocampus_001", "hippocampus_004")), ("Ts", ("hippocampus_009",))):
        for name in names:
            volume(root / f"images{part}" / f"{name}_0000.nii.gz", root / f"labels{part}" / f"{name}.nii.gz")
    volume(root / "imagesTs" / "hippocampus_002_0000.nii.gz")
    labels = {"background": 0, "Posterior": 2, "Anterior": 1}
    content = {"channel_names": {"0": "MRI"}, "labels": labels, "numTraining": 2, "file_ending": ".nii.gz"}
    text(root / "dataset.json", content)


def monailabel(root):
    objects = {}
    for name in ("spleen_10", "spleen_2"):
        volume(root / f"{name}.nii.gz", root / "labels" / "final" / f"{name}.nii.gz")
        info = {"label_info": [{"name": "spleen", "idx": 1}]}
        objects[name] = {"image": {"ext": ".nii.gz"}, "labels": {"final": {"ext": ".nii.gz", "info": info}}}
    volume(root / "spleen_3.nii.gz", root / "labels" / "original" / "spleen_3.nii.gz")
    objects["spleen_3"] = {"image": {"ext": ".nii.gz"}, "labels": {"original": {"ext": ".nii.gz"}}}
    text(root / "datastore_v2.json", {"name": "a", "description": "", "images_dir": ".", "objects": objects})


KVASIR_FOLDERS = (
    "Ampulla of vater",
    "Angiectasia",
    "Blood - fresh",
    "Blood - hematin",
    "Erosion",
    "Erythema",
    "Foreign body",
    "Ileocecal valve",
    "Lymphangiectasia",
    "Normal clean mucosa",
    "Polyp",
    "Pylorus",
    "Reduced mucosal view",
    "Ulcer",
)


def kvasir_capsule(root):
    for index, finding in enumerate(KVASIR_FOLDERS):
        picture(root / "labelled_images" / finding / f"0728084c8da942d9_{30 + index}.jpg")
        picture(root / "labelled_images" / finding / f"8885668afb844852_{900 + index}.jpg")
    text(root / "metadata.csv", "filename;video_id;frame_number;finding_category;finding_class\n")


def chaoyang(root):
    agreed = [("535940-IMG009x024-2", 2), ("535940-IMG010x008-2", 2), ("353042_4-IMG005x014-1", 1)]
    disputed = [f"535940-IMG{index:03d}x001-0" for index in range(60)]
    items = [{"name": f"train/{name}.JPG", "label": label} for name, label in agreed]
    items += [{"name": f"train/{name}.JPG", "label": 0} for name in disputed]
    tests = [{"name": f"test/600001-IMG00{label}x001-{label}.JPG", "label": label} for label in range(4)]
    text(root / "train.json", items)
    text(root / "test.json", tests)
    opinions = [
        item | dict.fromkeys(("label_A", "label_B", "label_C"), item["label"])
        if item["label"]
        else item | {"label_A": 0, "label_B": 1, "label_C": 3}
        for item in items
    ]
    text(root / "HSA-NRL" / "chaoyang" / "train_label.json", opinions)
    for item in (*items, *tests):
        picture(root / item["name"])


ODIR_HEADER = [
    "ID",
    "Patient Age",
    "Patient Sex",
    "Left-Fundus",
    "Right-Fundus",
    "Left-Diagnostic Keywords",
    "Right-Diagnostic Keywords",
    *"NDGCAHMO",
]


def odir_row(patient, left, right):
    names = [f"{patient}_left.jpg", f"{patient}_right.jpg"]
    return [patient, 60, "Female", *names, left, right, 0, 1, 0, 0, 0, 0, 0, 0]


ODIR_SETS = {
    "Training": [
        odir_row(1, "normal fundus", "moderate non proliferative retinopathy"),
        odir_row(4, "drusen，cataract", "lens dust，suspected glaucoma"),
        odir_row(5, "no fundus image", "anterior segment image，cataract"),
    ],
    "Off-site Test": [odir_row(937, "hypertensive retinopathy", "pathological myopia")],
    "On-site Test": [odir_row(1000, "dry age-related macular degeneration", "macular epiretinal membrane")],
}


def oia_odir(root, *, write=comma_separated, suffix=".csv"):
    """By default with tables that every installation reads; the publishers' are of the suffix ``.xlsx``."""
    for name, rows in ODIR_SETS.items():
        annotation = root / f"{name} Set" / "Annotation"
        write(annotation / f"{name.lower()} annotation (English){suffix}", [ODIR_HEADER, *rows])
        text(annotation / f"{name.lower()} annotation (Chinese).xlsx", "not read")
        for row in rows:
            for image in row[3:5]:
                picture(root / f"{name} Set" / "Images" / image)


MINIATURES = {
    "isic2017": isic2017,
    "busi": busi,
    "busis": busis,
    "udiat": udiat,
    "msseg1": msseg1,
    "ljubljana-ms": ljubljana_ms,
    "covid1920": covid1920,
    "la2018": la2018,
    "isbi2012-la": isbi2012_la,
    "mama-mia": mama_mia,
    "riga": riga,
    "gleason-xai": gleason_xai,
    "lidc-idri": lidc_idri,
    "msd": msd,
    "nnunet": nnunet,
    "monailabel": monailabel,
    "kvasir-capsule": kvasir_capsule,
    "oia-odir": oia_odir,
    "chaoyang": chaoyang,
}
