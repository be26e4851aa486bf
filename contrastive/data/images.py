"""Read images: a folder with one folder per class, a table with a column of paths, arrays in an npz file, or a package.

Each image is resized to the size of the data, and from then on is a text of its values (base64 of bytes, channel by
channel), so that splits, identity and duplicates work as for texts.
"""

import base64
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from contrastive import paths
from contrastive.config.cell import Images
from contrastive.data.files import Columns, Rows, listed, read_file
from contrastive.errors import UserError, brief

# Also of files that Pillow may not read, which are then named.
ENDINGS = (
    ".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jpe", ".jfif", ".jp2", ".tga",
    ".avif", ".heic", ".heif", ".jxl", ".svg", ".dng",
)  # fmt: skip
MOST_PIXELS = 80_000_000  # of a file; more is a mistake, or made to fill the memory
LISTED = 5  # unreadable files that an error lists


def read_images(path: Path, columns: Columns, images: Images) -> Rows:
    """Return the images of a folder, a table or an npz file as rows."""
    if path.is_dir():
        labelled = list(_in_folders(path))
        return _read_all(brief(path), [file for file, _ in labelled], [label for _, label in labelled], images)
    if path.suffix.lower() == ".npz":
        return rows_of_arrays(brief(path), *_arrays(path, columns), images)
    table = read_file(path, columns)
    return _read_all(table.name, _named(path, table), table.labels, images)


def files_read(path: Path, columns: Columns) -> list[tuple[str, Path]]:
    """Return the files whose content is that of the data, in a folder with their names below it."""
    if path.is_dir():
        return [(file.relative_to(path).as_posix(), file) for file, _ in _in_folders(path)]
    if path.suffix.lower() == ".npz":
        return [("", path)]
    return [("", path), *(("", file) for file in _named(path, read_file(path, columns)))]


def _named(table: Path, rows: Rows) -> list[Path]:
    """Return the image files that a table names, relative to its folder."""
    return [table.parent / paths.expand_user(text) for text in rows.texts]


def values_of(texts: Sequence[str], images: Images) -> Any:
    """Return the values of images, one row each."""
    import numpy as np

    rows = [np.frombuffer(base64.b64decode(text), np.uint8) for text in texts]
    return np.stack(rows) if rows else np.zeros((0, images.values()), np.uint8)


def _in_folders(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the image files below each folder of a class, with the class, in order of their names."""

    def refuse(error: OSError) -> None:
        raise UserError(f"{brief(error.filename or root)} cannot be read ({error.strerror or brief(error)})") from None

    def images(names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if name.lower().endswith(ENDINGS) and not name.startswith("."))

    _, folders, files = next(os.walk(root, onerror=refuse))
    classes = sorted(name for name in folders if not name.startswith("."))
    labelled = [(Path(folder, name), label) for label in classes
             for folder, _, names in os.walk(root / label, onerror=refuse) for name in images(names)]  # fmt: skip
    if labelled and (outside := images(files)):
        raise UserError(
            f"{brief(root)} has images outside the folders of its classes: {listed(outside, LISTED)}; move or remove "
            "them"
        )
    if not labelled:
        inside = "no folders" if not classes else f"the folders {listed(classes, LISTED)}, without images"
        raise UserError(
            f"{brief(root)} has {inside}; give a folder with one folder of images per class "
            f"({', '.join(ENDINGS[:8])} …)"
        )
    yield from sorted(labelled)


def _read_all(name: str, files: Iterable[Path], labels: list[str], images: Images) -> Rows:
    """Read image files; raise one UserError that lists those that cannot be read."""
    texts, problems = [], []
    for file in files:
        try:
            texts.append(_text(_opened(file), images))
        except UserError as error:
            problems.append(f"{brief(file)} ({error})")
    if problems:
        count = "1 image cannot be" if len(problems) == 1 else f"{len(problems)} images cannot be"
        raise UserError(f"{name}: {count} read: {listed(problems, LISTED)}. Replace or remove them")
    return Rows(name, texts, labels, [()] * len(texts), labels)


def _opened(file: Path) -> Any:
    """Return the first picture of an image file, upright."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            if image.width * image.height > MOST_PIXELS:
                raise UserError(f"{image.width} × {image.height} pixels, more than {MOST_PIXELS // 10**6} million")
            return ImageOps.exif_transpose(image)
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError("there is no such file") from None
    except UnidentifiedImageError:
        raise UserError("not an image") from None
    except Exception as error:  # a damaged file may raise anything
        raise UserError(brief(error) or type(error).__name__) from None


def _text(image: Any, images: Images) -> str:
    """Return the values of an image at the size of the data."""
    import numpy as np
    from PIL import Image, ImageOps

    if image.mode.startswith(("I", "F")):  # 16 bits or more for each grey
        grey = np.asarray(image, np.float64)
        if image.mode == "F" or grey.min() < 0 or grey.max() > 65_535:
            raise UserError(f"values from {grey.min():g} to {grey.max():g}; save it with 8 or 16 bits")
        image = Image.fromarray((grey / 257).round().astype(np.uint8))
    if image.mode in ("P", "PA", "LA"):
        image = image.convert("RGBA")
    image = image.convert("L" if images.channels == 1 else "RGB")
    fitted = ImageOps.fit(image, (images.size, images.size), Image.Resampling.BICUBIC)
    values = np.asarray(fitted).reshape(images.size, images.size, images.channels)
    return base64.b64encode(values.transpose(2, 0, 1).tobytes()).decode()


def _arrays(path: Path, columns: Columns) -> tuple[Any, Any]:
    """Return the arrays of images and labels of an npz file."""
    import numpy as np

    paths.check_file(path)
    try:
        with path.open("rb") as file, np.load(file) as content:
            missing = [column for column in columns.values() if column not in content]
            if missing:
                raise UserError(
                    f"{brief(path)} has no array `{brief(missing[0])}`; it has {listed(content.files)}: name those of "
                    "the images and labels in data.text and data.label"
                )
            return content[columns["text"]], content[columns["label"]]
    except UserError:
        raise
    except Exception as error:  # a damaged file may raise anything, and one that is no archive has no names
        raise UserError(f"{brief(path)} cannot be read as an npz file ({brief(error)})") from None


def rows_of_arrays(name: str, pictures: Any, labels: Any, images: Images) -> Rows:
    """Return arrays n × h × w or n × h × w × channels of bytes as rows."""
    import numpy as np
    from PIL import Image

    if pictures.ndim not in (3, 4) or (pictures.ndim == 4 and pictures.shape[3] not in (1, 3)):
        raise UserError(f"{name}: the images are an array of shape {pictures.shape}; give n × h × w, or n × h × w × 3")
    if pictures.dtype != np.uint8:
        raise UserError(f"{name}: the images are of type {pictures.dtype}; give uint8, from 0 to 255")
    if labels.shape != (len(pictures),):
        raise UserError(f"{name}: {len(pictures)} images, but labels of shape {labels.shape}; give one label per image")
    if not pictures.size:
        raise UserError(f"{name} has no images: their array has the shape {pictures.shape}")
    if labels.dtype.kind not in "biuUS":
        raise UserError(f"{name}: the labels are of type {labels.dtype}; give whole numbers or words")
    squeezed = pictures[..., 0] if pictures.ndim == 4 and pictures.shape[3] == 1 else pictures
    texts = [_text(Image.fromarray(picture), images) for picture in squeezed]
    names = [str(label) for label in labels.tolist()]
    return Rows(name, texts, names, [()] * len(texts), names)
