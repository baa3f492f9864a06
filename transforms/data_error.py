"""The errors of files that cannot be used, without a package that reading files does not need."""


class DataError(ValueError):
    """Data or their description cannot be used; the text names site, file, what was found and what was expected.

    Example:
        >>> raise DataError("runs/mine/site-1/data.yaml: key 'channels' is 2; expected 1 or 3.")
        Traceback (most recent call last):
        ...
        fedannot.transforms.data_error.DataError: runs/mine/site-1/data.yaml: key 'channels' is 2; expected 1 or 3.
    """


class NearlyWholeError(DataError):
    """Label values of a mask are close to whole numbers, and none."""


class MissingFileError(DataError):
    """A file that is named is not there."""
