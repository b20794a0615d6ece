"""NV12 pictures: colour equations, composite of a face into its canvas, splice, whole-picture conversions."""
