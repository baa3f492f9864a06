"""The public layouts of known data sets: each importer finds a data set's cases where its archives were unpacked."""

from . import (
    busi,
    busis_udiat,
    chaoyang,
    covid1920,
    decathlon,
    gleason_xai,
    isic2017,
    kvasir_capsule,
    left_atrium,
    lidc_idri,
    ljubljana_ms,
    mama_mia,
    monailabel,
    msseg1,
    nnunet,
    oia_odir,
    riga,
)
from .layout import Layout

_LAYOUTS = (
    Layout("isic2017", "ISIC 2017 skin lesions", "segmentation", isic2017.EXPECTED, isic2017.read),
    Layout("busi", "BUSI breast ultrasound", "segmentation", busi.EXPECTED, busi.read),
    Layout("busis", "BUSIS breast ultrasound", "segmentation", busis_udiat.EXPECTED_BUSIS, busis_udiat.read_busis),
    Layout(
        "udiat",
        "UDIAT (Dataset B) breast ultrasound",
        "segmentation",
        busis_udiat.EXPECTED_UDIAT,
        busis_udiat.read_udiat,
    ),
    Layout("msseg1", "MSSEG-1 multiple sclerosis MRI", "segmentation", msseg1.EXPECTED, msseg1.read),
    Layout(
        "ljubljana-ms", "Ljubljana multiple sclerosis MRI", "segmentation", ljubljana_ms.EXPECTED, ljubljana_ms.read
    ),
    Layout("covid1920", "COVID-19-20 lung CT", "segmentation", covid1920.EXPECTED, covid1920.read),
    Layout("la2018", "Left atrium MRI 2018", "segmentation", left_atrium.EXPECTED_2018, left_atrium.read_2018),
    Layout(
        "isbi2012-la", "Left atrium MRI ISBI 2012", "segmentation", left_atrium.EXPECTED_2012, left_atrium.read_2012
    ),
    Layout("mama-mia", "MAMA-MIA breast MRI, experts and a network", "segmentation", mama_mia.EXPECTED, mama_mia.read),
    Layout("riga", "RIGA fundus photographs, six ophthalmologists", "segmentation", riga.EXPECTED, riga.read),
    Layout(
        "gleason-xai",
        "GleasonXAI prostate tissue, several pathologists",
        "segmentation",
        gleason_xai.EXPECTED,
        gleason_xai.read,
    ),
    Layout("lidc-idri", "LIDC-IDRI lung CT, several readers", "segmentation", lidc_idri.EXPECTED, lidc_idri.read),
    Layout("msd", "A task of the Medical Segmentation Decathlon", "segmentation", decathlon.EXPECTED, decathlon.read),
    Layout("nnunet", "A raw data set of nnU-Net", "segmentation", nnunet.EXPECTED, nnunet.read),
    Layout("monailabel", "A local datastore of MONAI Label", "segmentation", monailabel.EXPECTED, monailabel.read),
    Layout(
        "kvasir-capsule", "Kvasir-Capsule endoscopy", "classification", kvasir_capsule.EXPECTED, kvasir_capsule.read
    ),
    Layout("oia-odir", "OIA-ODIR fundus photographs", "classification", oia_odir.EXPECTED, oia_odir.read),
    Layout("chaoyang", "Chaoyang colon slides", "classification", chaoyang.EXPECTED, chaoyang.read),
)

DATASETS: dict[str, Layout] = {layout.name: layout for layout in _LAYOUTS}
