"""How the files of volumes end; nothing is imported to know it."""

VOLUME_SUFFIXES = (".nii", ".nii.gz")
# The latter are read with SimpleITK.
VOLUME_FILE_SUFFIXES = (*VOLUME_SUFFIXES, ".nrrd", ".nhdr", ".mha", ".mhd")
