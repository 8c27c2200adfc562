"""What is known of each official data set: its sizes, its terms, where it comes from."""

from dataclasses import dataclass

ARCHIVES = (".tar.gz", ".zip")


@dataclass(frozen=True)
class Download:
    """A file of the publisher, and where under the data root it belongs."""

    url: str
    checksum: str | None
    """md5:... or sha256:...; None where nobody tells it."""
    folder: str = ""
    """Where the file is put, or unpacked."""
    file: str = ""
    """The file's name; without it, the last part of the address."""
    makes: tuple[str, ...] = ()
    """What is there afterwards: any of these will do. Without it, the file itself."""
    by_hand: bool = False
    """The address is a page with a button to press."""

    @property
    def name(self) -> str:
        return self.file or self.url.rpartition("/")[2]

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def is_archive(self) -> bool:
        return self.name.endswith(ARCHIVES)


@dataclass(frozen=True)
class Entry:
    what: str
    terms: str
    train: int = 0
    test: int = 0
    images: tuple[tuple[str, int], ...] = ()
    """Of each domain, where the publisher does not say who trains and who tests. Without it and
    without `train`, the counts are not published and nobody can say what is complete."""
    per_domain: int | None = None
    """How many training images of each domain FedBN takes."""
    downloads: tuple[Download, ...] = ()
    parts: tuple[str, ...] = ()
    """The sets that this one is made from."""


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_USPS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_SVHN = "http://ufldl.stanford.edu/housenumbers/"
_DOMAINNET = "http://csr.bu.edu/ftp/visda/2019/multi-source/"


def _mnist(file: str, md5: str) -> Download:
    makes = (f"MNIST/raw/{file}", f"MNIST/raw/{file.removesuffix('.gz')}")
    return Download(_MNIST + file, f"md5:{md5}", "MNIST/raw", makes=makes)


def _domain(name: str, inner: str, archive: str, train: str, test: str) -> tuple[Download, ...]:
    lists = f"{_DOMAINNET}domainnet/txt/{name}"
    return (
        Download(f"{lists}_train.txt", f"sha256:{train}", "DomainNet"),
        Download(f"{lists}_test.txt", f"sha256:{test}", "DomainNet"),
        Download(
            f"{_DOMAINNET}{inner}{name}.zip",
            f"sha256:{archive}",
            "DomainNet",
            makes=(f"DomainNet/{name}",),
        ),
    )


CATALOGUE: dict[str, Entry] = {
    "cifar10": Entry(
        "CIFAR-10: photos, 32 x 32 colour",
        "not stated",
        train=50_000,
        test=10_000,
        downloads=(
            Download(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
                makes=("cifar-10-batches-bin", "cifar-10-batches-py"),
            ),
        ),
    ),
    "mnist": Entry(
        "MNIST: digits by hand, 28 x 28 grey",
        "CC BY-SA 3.0",
        train=60_000,
        test=10_000,
        downloads=(
            _mnist("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            _mnist("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
            _mnist("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
            _mnist("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
    ),
    "usps": Entry(
        "USPS: digits by hand, 16 x 16 grey",
        "not stated",
        train=7_291,
        test=2_007,
        downloads=(
            Download(f"{_USPS}usps.bz2", "md5:ec16c51db3855ca6c91edd34d0e9b197", "usps"),
            Download(f"{_USPS}usps.t.bz2", "md5:8ea070ee2aca1ac39742fdd1ef5ed118", "usps"),
        ),
    ),
    "svhn": Entry(
        "SVHN: house numbers, 32 x 32 colour",
        "non-commercial",
        train=73_257,
        test=26_032,
        downloads=(
            Download(f"{_SVHN}train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373", "svhn"),
            Download(f"{_SVHN}test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3", "svhn"),
        ),
    ),
    "mnist-m": Entry(
        "MNIST-M: MNIST on photos, 32 x 32 colour",
        "not stated",
        train=59_001,
        test=9_001,
        downloads=(
            Download(
                "https://cornell.box.com/shared/static/jado7quprg6hzzdubvwzh9umr75damwi",
                "md5:859df31c91afe82e80e5012ba928f279",
                file="mnist_m.tar.gz",
                makes=("mnist_m",),
            ),
        ),
    ),
    "synth-digits": Entry(
        "SynthDigits: fonts, 32 x 32 colour",
        "not stated",
        train=479_400,
        test=9_553,
        downloads=(
            Download(
                "https://drive.google.com/file/d/0B9Z4d7lAwbnTSVR1dEFSRUFxOUU/view",
                None,
                "synth_digits",
                file="SynthDigits.zip",
                makes=("synth_digits/synth_train_32x32.mat",),
                by_hand=True,
            ),
        ),
    ),
    "office-caltech": Entry(
        "Office-Caltech-10: four domains, photos",
        "not stated",
        images=(("amazon", 958), ("caltech", 1_123), ("dslr", 157), ("webcam", 295)),
        per_domain=62,
        downloads=(
            Download(
                "https://drive.google.com/file/d/1gxhV5xRXQgC9AL4XexduH7hdxDng7bJ3/view",
                None,
                file="office_caltech_10_dataset.zip",
                makes=("office_caltech_10",),
                by_hand=True,
            ),
        ),
    ),
    "domainnet": Entry(
        "DomainNet: six domains, ten classes",
        "non-commercial",
        per_domain=105,
        downloads=(
            *_domain(
                "clipart",
                "groundtruth/",
                "f8f248a3e8bbc9868c523ae24e6601b4c2ad102afc60c0efeb4f3255df22354d",
                "affdadf5f95a7583e6b98030a3d35007e2613ee4dd942393c5a705ec2b429312",
                "62c8e36aaba1c41ad9e249099739707220a44c08f167b37ef420f34a31628a6b",
            ),
            *_domain(
                "infograph",
                "",
                "891e14f476317e97b6f06d6498c11d0a5b8d0c8b57210765ed9beb072da611fa",
                "36b44cbd41a2915e0dc73b4f4be8862a6f3c220f93c8d63fb2439beeae3aefda",
                "413cfa54ac92e7e6b242f4f09fbd9c8ace85c4deaf3cb6c81ff6b68264460136",
            ),
            *_domain(
                "painting",
                "groundtruth/",
                "fa47e6d405503ea0286cabd767f176bd30e988b63ddd7b9db16cf030c9770015",
                "f1da38d50a702fddf1329f85bc607d7a2abcae7e6aec75e1fd49cc1bd340d47b",
                "11472b13b5188e09f06918b12eebb660588c97a20e43e268d9b02e3e37eb8f97",
            ),
            *_domain(
                "quickdraw",
                "",
                "9f37df2a8c3733703dbb35ad9964202a65f675ca30137756457537536b485d84",
                "3a5edd3bc215772010eebc87f158707703dd7e48091d13b816af81326a9d1c0f",
                "2a00a60650a453c65c356da748fec54084a197272137c440e7d52d08947357bf",
            ),
            *_domain(
                "real",
                "",
                "d7fe010b430c5b510f85d657d38c4a1924822695fabea4fef57bd00dba251d63",
                "19d483256d24aef19e581b65eda8333fd918aef3eb733fe499ff384120e3a289",
                "2b3f75bcde309aeb5931292084b2162e936b5f189e3bb1ad716f0f74c460864c",
            ),
            *_domain(
                "sketch",
                "",
                "23a7dbae7016b343e934399beaa8a68728fb5e570ebe2c71df9b75cf91c499fc",
                "72f4bc6afa5702a1ccba800d0053c1427de87439dfaf246dbc9a2e71abfec54f",
                "3fb48fca18c507c4321f007c3f62b308ec232ff6928cbfe2af64e76ec366e840",
            ),
        ),
    ),
    "digits-five": Entry(
        "FedBN's Digits: five domains, 28 x 28",
        "see its parts",
        per_domain=743,
        parts=("mnist", "svhn", "usps", "synth-digits", "mnist-m"),
    ),
}
