"""What `configs/metadata.json` must hold, as JSON Schema; a bundle carries it, so that it is verified offline."""

from ...transforms.strict_files import JsonObject

_TEXT: JsonObject = {"type": "string", "minLength": 1}
_OF_TEXTS: JsonObject = {"type": "object", "additionalProperties": {"type": "string"}}
_TENSOR: JsonObject = {
    "type": "object",
    "required": ["type", "format", "num_channels", "spatial_shape", "dtype", "value_range", "channel_def"],
    "properties": {
        "type": {"enum": ["image", "probabilities"]},
        "format": _TEXT,
        "modality": _TEXT,
        "num_channels": {"type": "integer", "minimum": 1},
        # A number, or what MONAI makes one of, such as "*" for any.
        "spatial_shape": {
            "type": "array",
            "items": {"anyOf": [{"type": "integer", "minimum": 1}, _TEXT]},
            "maxItems": 3,
        },
        "dtype": {"enum": ["float32", "uint8"]},
        "value_range": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
        "is_patch_data": {"type": "boolean"},
        "channel_def": {**_OF_TEXTS, "minProperties": 1, "propertyNames": {"pattern": "^[0-9]+$"}},
    },
}


def _tensors(name: str) -> JsonObject:
    return {"type": "object", "required": [name], "additionalProperties": _TENSOR}


METADATA_SCHEMA: JsonObject = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Metadata of a MONAI Bundle that fedannot exported",
    "type": "object",
    "required": [
        *("schema", "version", "changelog", "monai_version", "pytorch_version", "numpy_version"),
        *("required_packages_version", "task", "description", "authors", "copyright", "network_data_format"),
        "fedannot",
    ],
    "properties": {
        "schema": {"type": "string", "pattern": "^https://"},
        **dict.fromkeys(("version", "monai_version", "pytorch_version", "numpy_version"), _TEXT),
        **dict.fromkeys(("name", "task", "description", "authors", "copyright", "intended_use"), _TEXT),
        "changelog": _OF_TEXTS,
        "required_packages_version": _OF_TEXTS,
        "eval_metrics": {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
        "network_data_format": {
            "type": "object",
            "required": ["inputs", "outputs"],
            "properties": {
                "inputs": _tensors("image"),
                "outputs": _tensors("pred"),
                "post_processed_outputs": _tensors("pred"),
            },
        },
        "fedannot": {
            "type": "object",
            "required": ["fedannot_version", "method", "task", "seed", "rounds", "model_of", "federation", "data"],
            "properties": {
                "task": {"enum": ["segmentation", "classification"]},
                "rounds": {"type": "integer", "minimum": 0},
                "threshold": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            },
        },
    },
}
