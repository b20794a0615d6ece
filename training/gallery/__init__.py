"""The drawings behind the gallery: six people who do not exist; `python -m training.gallery` writes what the package ships."""
