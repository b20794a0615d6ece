"""The gallery of presenters that the package ships."""
