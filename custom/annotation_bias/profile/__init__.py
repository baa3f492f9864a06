"""The boundary profile: by how far a site annotates outside the image boundary, seen in the images, without a model.

A site measures how strongly its images change across its annotated contours, moved inward and outward (`curves`), at a
coarse scale first (`scales`). The server aligns the curves of all sites and finds the image boundary on their mean
(`alignment`). Each site draws its patients again for an interval (`interval`). `decision` says what is known and what
counts as zero, `estimation` goes through all steps for sites in one process.

A translation of all annotations is another error of a site, estimated at the site alone (`site_shift`).

Two more errors are flagged for a person to look at: masks that belong to other images (`mask_pairing`), and one side of
all objects that is moved alone (`one_sided`). `image_change` has what both are made of.
"""
