"""Images and masks in, images and masks out: loading, annotation noise, contour bands. Knows MONAI, not federation."""

from typing import TYPE_CHECKING

from .lazy_names import lazy_names

if TYPE_CHECKING:
    from .errors import DataError
    from .ignore_unannotated import IgnoreUnannotated
    from .loading.image_files import read_image, read_mask
    from .loading.volume_files import read_volume
    from .move_contour import MoveContour, MoveContourd
    from .noise.class_noise import ClassNoise
    from .noise.contour_evolution import ContourEvolution, ContourEvolutiond
    from .noise.federation_noise import FederationNoise
    from .noise.follow_protocol import FollowProtocol, FollowProtocold
    from .noise.mislabel import Mislabel
    from .noise.missing_lesions import DropLesions, DropLesionsd
    from .noise.site_protocol import SiteProtocol
    from .phantoms.cell_phantom import cell_phantom
    from .phantoms.chamber_phantom import chamber_phantom, draw_centre_style
    from .phantoms.lesion_phantom import lesion_phantom
    from .phantoms.multi_lesion_phantom import multi_lesion_phantom
    from .surfaces import surface_of_mask

__all__ = [
    "ClassNoise",
    "ContourEvolution",
    "ContourEvolutiond",
    "DataError",
    "DropLesions",
    "DropLesionsd",
    "FederationNoise",
    "FollowProtocol",
    "FollowProtocold",
    "IgnoreUnannotated",
    "Mislabel",
    "MoveContour",
    "MoveContourd",
    "SiteProtocol",
    "cell_phantom",
    "chamber_phantom",
    "draw_centre_style",
    "lesion_phantom",
    "multi_lesion_phantom",
    "read_image",
    "read_mask",
    "read_volume",
    "surface_of_mask",
]

# Where each is: its module below this package.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ClassNoise": "noise.class_noise",
        **dict.fromkeys(("ContourEvolution", "ContourEvolutiond"), "noise.contour_evolution"),
        "DataError": "errors",
        **dict.fromkeys(("DropLesions", "DropLesionsd"), "noise.missing_lesions"),
        "FederationNoise": "noise.federation_noise",
        **dict.fromkeys(("FollowProtocol", "FollowProtocold"), "noise.follow_protocol"),
        "IgnoreUnannotated": "ignore_unannotated",
        "Mislabel": "noise.mislabel",
        **dict.fromkeys(("MoveContour", "MoveContourd"), "move_contour"),
        "SiteProtocol": "noise.site_protocol",
        "cell_phantom": "phantoms.cell_phantom",
        **dict.fromkeys(("chamber_phantom", "draw_centre_style"), "phantoms.chamber_phantom"),
        "lesion_phantom": "phantoms.lesion_phantom",
        "multi_lesion_phantom": "phantoms.multi_lesion_phantom",
        **dict.fromkeys(("read_image", "read_mask"), "loading.image_files"),
        "read_volume": "loading.volume_files",
        "surface_of_mask": "surfaces",
    },
)
