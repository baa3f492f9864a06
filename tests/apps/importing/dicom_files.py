"""DICOM as hospitals have it, written with pydicom: slices, files of many frames, segmentations, X-rays."""

from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

CT, MR, ENHANCED_CT, X_RAY, STRUCTURE_SET = (
    f"1.2.840.10008.5.1.4.1.1.{end}" for end in ("2", "4", "2.1", "1.1", "481.3")
)
SHAPE = (4, 5, 6)  # slices, rows, columns
SPACING, STEP, ORIGIN = (0.7, 0.9), 2.5, (3.0, 4.0, -10.0)
# Voxel (column, row, slice) to millimetres to the right, front and top.
AFFINE = np.array(
    [[-SPACING[1], 0, 0, -ORIGIN[0]], [0, -SPACING[0], 0, -ORIGIN[1]], [0, 0, STEP, ORIGIN[2]], [0, 0, 0, 1]]
)


def item(**values):
    dataset = Dataset()
    for name, value in values.items():
        setattr(dataset, name, value)
    return dataset


def position(index):
    return [ORIGIN[0], ORIGIN[1], ORIGIN[2] + STEP * index]


def write(file, stored, sop, uid, *, bits=16, **values):
    """Write pixels ``(rows, columns)``, of several frames or in colours, with further attributes."""
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = sop, uid
    kind = stored.dtype.itemsize * 8
    known = {
        "SOPClassUID": sop,
        "SOPInstanceUID": uid,
        "StudyInstanceUID": "1.2.3",
        "SeriesInstanceUID": uid.rpartition(".")[0],
        "FrameOfReferenceUID": "1.2.3.5",
        "Modality": "CT",
        "PatientID": "p",
        "PatientName": "x",
        **dict.fromkeys(("PatientBirthDate", "PatientSex", "AccessionNumber", "StudyDate", "StudyTime"), ""),
        "ReferringPhysicianName": "",
        "StudyID": "1",
        "SeriesNumber": 1,
        "InstanceNumber": 1,
        "SamplesPerPixel": 3 if values.get("PhotometricInterpretation") == "RGB" else 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": kind,
        "BitsStored": min(bits, kind),
        "HighBit": min(bits, kind) - 1,
        "PixelRepresentation": int(stored.dtype.kind == "i"),
    }
    planes = stored.shape[:-1] if known["SamplesPerPixel"] == 3 else stored.shape
    known["Rows"], known["Columns"] = planes[-2:]
    dataset = item(**(known | values), PixelData=stored.tobytes())
    dataset.file_meta = meta
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    dataset.save_as(file, enforce_file_format=True)
    return file


def write_slices(folder, stored, slopes, intercepts, *, sop=CT, **values):
    """Write a series with a slope for each slice."""
    for index, pixels in enumerate(stored):
        place = {"ImagePositionPatient": position(index), "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}
        scale = {"RescaleSlope": slopes[index], "RescaleIntercept": intercepts[index], "RescaleType": "US"}
        numbered = {"PixelSpacing": list(SPACING), "SliceThickness": STEP, "InstanceNumber": index + 1}
        write(folder / f"{index}.dcm", pixels, sop, f"1.2.3.9.{index + 1}", **(place | scale | numbered | values))
    return folder


def write_frames(file, stored, slopes, intercepts, order, *, places=True, **values):
    """Write an enhanced CT, whose frames lie in another order than their places."""
    measures = item(PixelSpacing=list(SPACING), SliceThickness=STEP)
    shared = item(
        PixelMeasuresSequence=[measures],
        PlaneOrientationSequence=[item(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])],
    )
    frames = []
    for index in order:
        scale = item(RescaleSlope=slopes[index], RescaleIntercept=intercepts[index], RescaleType="US")
        frame = item(PixelValueTransformationSequence=[scale])
        if places:
            frame.PlanePositionSequence = [item(ImagePositionPatient=position(index))]
        frames.append(frame)
    groups = {"PerFrameFunctionalGroupsSequence": frames} | (
        {"SharedFunctionalGroupsSequence": [shared]} if places else {}
    )
    return write(file, stored[list(order)], ENHANCED_CT, "1.2.3.77.1", NumberOfFrames=len(order), **(groups | values))


def write_segmentation(file, folder, mask, chosen, names=None):
    """Write a DICOM SEG of the classes 1, 2, … of a mask ``(slices, rows, columns)`` on some slices of a series."""
    import highdicom
    import pydicom
    from pydicom.sr.codedict import codes

    slices = [pydicom.dcmread(folder / f"{index}.dcm") for index in chosen]
    descriptions = [
        highdicom.seg.SegmentDescription(
            segment_number=number,
            segment_label=f"class {number}" if names is None else names[number - 1],
            segmented_property_category=codes.SCT.Tissue,
            segmented_property_type=codes.SCT.Tissue,
            algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.MANUAL,
        )
        for number in range(1, mask.max() + 1)
    ]
    segmentation = highdicom.seg.Segmentation(
        source_images=slices,
        pixel_array=mask[list(chosen)],
        segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=descriptions,
        series_instance_uid="1.2.3.88",
        series_number=2,
        sop_instance_uid="1.2.3.88.1",
        instance_number=1,
        manufacturer="x",
        manufacturer_model_name="x",
        software_versions="1",
        device_serial_number="1",
    )
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    segmentation.save_as(file)
    return file


def write_oblique(folder, shape, directions, spacing, origin, *, series="1.2.3.9", frame="1.2.3.5"):
    """Write a series of zeros ``(slices, rows, columns)`` whose rows, columns and slices run along unit vectors.

    Returns:
        Folder; and the affine to the left, back and top, of column, row and slice.
    """
    columns = np.array(directions, dtype=float).T * np.array(spacing)
    for index in range(shape[0]):
        write(
            folder / f"{index}.dcm",
            np.zeros(shape[1:], np.int16),
            CT,
            f"{series}.{index + 1}",
            ImagePositionPatient=[float(f"{value:.8g}") for value in np.array(origin) + index * columns[:, 2]],
            ImageOrientationPatient=[float(f"{value:.10g}") for value in np.ravel(directions[:2])],
            PixelSpacing=[spacing[1], spacing[0]],
            SliceThickness=spacing[2],
            InstanceNumber=index + 1,
            FrameOfReferenceUID=frame,
        )
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = columns, origin
    return folder, affine


def contour(points, kind="CLOSED_PLANAR", **values):
    """An item of a ContourSequence of points ``(n, 3)``, to the left, back and top."""
    data = [f"{value:.8g}" for value in np.ravel(points)]
    return item(**({"ContourGeometricType": kind, "NumberOfContourPoints": len(points), "ContourData": data} | values))


def write_structure_set(file, regions, *, series="1.2.3.9", frame="1.2.3.5", without=(), numbers=None, drawn=None):
    """Write an RTSTRUCT of regions, name → contours; `drawn` replaces them by pairs of a number and contours."""
    numbers = numbers or range(1, len(regions) + 1)
    listed = [
        item(ROINumber=number, ROIName=name, ReferencedFrameOfReferenceUID=frame)
        for number, name in zip(numbers, regions, strict=True)
    ]
    drawn = [
        item(ReferencedROINumber=number, ContourSequence=list(contours))
        for number, contours in drawn or zip(numbers, regions.values(), strict=True)
    ]
    named = item(RTReferencedSeriesSequence=[item(SeriesInstanceUID=series)])
    frames = [item(FrameOfReferenceUID=frame, RTReferencedStudySequence=[named])]
    uid = "1.2.3.66.1"
    sequences = {
        "StructureSetROISequence": listed,
        "ROIContourSequence": drawn,
        "ReferencedFrameOfReferenceSequence": frames,
    }
    known = {name: value for name, value in sequences.items() if name not in without}
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = STRUCTURE_SET, uid
    dataset = item(
        SOPClassUID=STRUCTURE_SET,
        SOPInstanceUID=uid,
        SeriesInstanceUID="1.2.3.66",
        StudyInstanceUID="1.2.3",
        Modality="RTSTRUCT",
        **known,
    )
    dataset.file_meta = meta
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    dataset.save_as(file, enforce_file_format=True)
    return file
