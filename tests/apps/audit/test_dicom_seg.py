"""DICOM segmentations against the series that they are of, read back by an independent reader."""

import numpy as np
import pytest

from fedannot.apps.audit.dicom_seg import write_dicom_seg
from fedannot.apps.audit.edited_masks import EditedFile
from fedannot.apps.importing.volumes import as_nifti
from fedannot.custom.data.description import VolumeDescription
from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.volume_files import read_label_volume, write_labels_like

pydicom = pytest.importorskip("pydicom")
highdicom = pytest.importorskip("highdicom")

ROWS, COLUMNS, SLICES = 6, 8, 4
SPACING, THICKNESS, ORIGIN = (0.5, 0.75), 2.0, (10.0, -20.0, 30.0)


def written_series(folder, origin=ORIGIN):
    """Oblique slices whose pixels are numbered."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    folder.mkdir()
    study, series, frame = generate_uid(), generate_uid(), generate_uid()
    row, column = np.array([0.0, 1.0, 0.0]), np.array([-0.6, 0.0, -0.8])
    normal = np.cross(row, column)
    for index in range(SLICES):
        meta = FileMetaDataset()
        meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = ExplicitVRLittleEndian, CTImageStorage
        meta.MediaStorageSOPInstanceUID = generate_uid()
        one = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        one.SOPClassUID, one.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        one.StudyInstanceUID, one.SeriesInstanceUID, one.FrameOfReferenceUID = study, series, frame
        one.PatientID, one.PatientName, one.Modality = "1", "A^B", "CT"
        for key in ("PatientBirthDate", "PatientSex", "StudyDate", "StudyTime", "AccessionNumber", "StudyID"):
            setattr(one, key, "")
        one.ReferringPhysicianName, one.SeriesNumber, one.InstanceNumber = "", 1, index + 1
        one.Rows, one.Columns, one.PixelSpacing, one.SliceThickness = ROWS, COLUMNS, list(SPACING), THICKNESS
        one.ImageOrientationPatient = [*row, *column]
        one.ImagePositionPatient = list(np.array(origin) + index * THICKNESS * normal)
        one.SamplesPerPixel, one.PhotometricInterpretation = 1, "MONOCHROME2"
        one.BitsAllocated = one.BitsStored = 16
        one.HighBit, one.PixelRepresentation = 15, 0
        pixels = np.arange(ROWS * COLUMNS, dtype=np.uint16).reshape(ROWS, COLUMNS) + 100 * index
        one.PixelData = pixels.tobytes()
        # Names do not say the order.
        one.save_as(folder / f"{(index * 7) % 5}.dcm", enforce_file_format=True)
    return folder


def test_every_pixel_has_the_class_of_the_voxel_that_shows_it(tmp_path):
    series = written_series(tmp_path / "series")
    volume = read_label_volume(as_nifti(series, tmp_path / "volume.nii.gz"))
    # Classes by intensities, so that the same pixel has the same class whatever the order of the axes.
    classes = np.where(volume.voxels % 3 == 0, 2, 0).astype(np.uint8)
    write_dicom_seg(tmp_path / "new.dcm", classes, volume.affine, series, ["liver", "tumour"])
    read = highdicom.seg.segread(tmp_path / "new.dcm")
    assert [read.get_segment_description(number).segment_label for number in read.segment_numbers] == ["tumour"]
    slices = [pydicom.dcmread(file) for file in series.iterdir()]
    frames = read.get_pixels_by_source_instance([item.SOPInstanceUID for item in slices])
    for one, frame in zip(slices, frames, strict=True):
        assert np.array_equal(frame[..., 0], one.pixel_array % 3 == 0)


TWO = VolumeDescription(classes=("liver", "tumour"), labels={0: 0, 1: 1, 2: 2})


def edited_segmentation(tmp_path):
    """The series, a given mask of its first class, and a segmentation of it with the second class alone changed."""
    series = written_series(tmp_path / "series")
    image = as_nifti(series, tmp_path / "volume.nii.gz")
    volume = read_label_volume(image)
    given = np.where(volume.voxels % 5 == 0, 1, 0)
    write_labels_like(tmp_path / "given.nii.gz", given, image)
    # Two of the four slices are empty, and so no frames.
    edited = np.where((volume.voxels % 3 == 0) & (volume.voxels >= 100) & (volume.voxels < 300), 2, 0) + 0 * given
    edited[(given == 1) & (volume.voxels >= 100) & (volume.voxels < 300)] = 1
    write_dicom_seg(tmp_path / "a.dcm", edited.astype(np.uint8), volume.affine, series, TWO.classes)
    return series, tmp_path / "given.nii.gz", edited


def test_an_edited_segmentation_comes_back_where_its_frames_lie(tmp_path):
    series, given, edited = edited_segmentation(tmp_path)
    header = pydicom.dcmread(tmp_path / "a.dcm")
    slices = [pydicom.dcmread(file, stop_before_pixels=True) for file in series.iterdir()]
    (named,) = header.ReferencedSeriesSequence
    assert named.SeriesInstanceUID == slices[0].SeriesInstanceUID
    known = {item.SOPInstanceUID for item in slices}
    assert {item.ReferencedSOPInstanceUID for item in named.ReferencedInstanceSequence} <= known
    assert int(header.NumberOfFrames) == 4
    before, after = EditedFile(tmp_path / "a.dcm", series).read(given, TWO)
    np.testing.assert_array_equal(after.classes, edited)
    np.testing.assert_array_equal(after.affine, before.affine)


def test_segments_count_by_their_label_and_not_by_their_number(tmp_path):
    series, given, edited = edited_segmentation(tmp_path)
    header = pydicom.dcmread(tmp_path / "a.dcm")
    for item, label in zip(header.SegmentSequence, ("Tumour", "liver"), strict=True):
        item.SegmentLabel = label
        del item.SegmentedPropertyTypeCodeSequence[0].CodeValue
        item.SegmentedPropertyTypeCodeSequence[0].CodeValue = "1"
    header.save_as(tmp_path / "a.dcm")
    _, after = EditedFile(tmp_path / "a.dcm", series).read(given, TWO)
    np.testing.assert_array_equal(after.classes, np.array([0, 2, 1])[edited])
    header.SegmentSequence[0].SegmentLabel = "spleen"
    header.save_as(tmp_path / "a.dcm")
    with pytest.raises(DataError, match="found a segment 'spleen'; expected only segments of this site's classes"):
        EditedFile(tmp_path / "a.dcm", series).read(given, TWO)


def test_a_segmentation_of_another_series_does_not_come_back(tmp_path):
    _, given, _ = edited_segmentation(tmp_path)
    other = written_series(tmp_path / "other")
    with pytest.raises(DataError, match=r"a\.dcm: refers to the series .*; expected that of .*other"):
        EditedFile(tmp_path / "a.dcm", other).read(given, TWO)
    with pytest.raises(DataError, match="expected with it --dicom DIR"):
        EditedFile(tmp_path / "a.dcm").read(given, TWO)


def test_another_series_is_refused(tmp_path):
    series = written_series(tmp_path / "series")
    volume = read_label_volume(as_nifti(series, tmp_path / "volume.nii.gz"))
    other = written_series(tmp_path / "other", origin=(10.2, -20.0, 30.0))
    with pytest.raises(DataError, match=r"other: found slices on another grid than the volume's"):
        write_dicom_seg(tmp_path / "new.dcm", np.ones(volume.voxels.shape, np.uint8), volume.affine, other, ["liver"])
    with pytest.raises(DataError, match="nothing is annotated"):
        write_dicom_seg(tmp_path / "a.dcm", np.zeros(volume.voxels.shape, np.uint8), volume.affine, series, ["liver"])


def test_what_is_no_series_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: found 0 files; expected the slices of one DICOM series"):
        write_dicom_seg(tmp_path / "a.dcm", np.zeros((2, 2, 2), np.uint8), np.eye(4), tmp_path / "empty", ["liver"])
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.dcm").write_text("text")
    with pytest.raises(DataError, match=r"a\.dcm: cannot be read as DICOM"):
        write_dicom_seg(tmp_path / "a.dcm", np.zeros((2, 2, 2), np.uint8), np.eye(4), tmp_path / "text", ["liver"])
