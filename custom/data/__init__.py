"""A federation on disk: its folders, its sites' data descriptions, and the embedded phantom federation."""
