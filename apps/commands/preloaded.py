"""Imported once by the process that the runs of a comparison are forked from: what runs import.

Nothing here may compute with PyTorch or start a thread: a forked process has neither the threads nor what they held.
"""

# ruff: noqa: F401

import monai.losses
import monai.metrics.utils
import monai.networks.nets.basic_unet
import monai.networks.nets.resnet

from ...custom.evaluation import local_scores
from ...custom.evaluation import segmentation_scores as evaluation
from ...custom.flare import controller, executor, outbound_filter
from ...custom.methods.decoupled import server, site
from ...custom.methods.feda3i import server as feda3i_server
from ...custom.methods.feda3i import site as feda3i_site
from ...transforms.loading import image_pipeline, volume_pipeline
from ..functions import runs as functions_of_runs
from ..reports import output, pictures
from ..runs import in_process, simulate
from . import simulation
