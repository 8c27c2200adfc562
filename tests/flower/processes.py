"""A federation of real processes on loopback: a SuperLink, SuperNodes, and runs of an app."""

import datetime
import ipaddress
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ..processes import HANG, own_port, wait_until, with_variable

BIN = Path(sys.executable).parent
APP = Path(__file__).parent / "fedtest_app"


class Federation(AbstractContextManager["Federation"]):
    """Everything it starts is ended with it, by process group."""

    def __init__(self, folder: Path, *, secure: bool = False, simulation: bool = False) -> None:
        self.folder, self.secure, self.simulation = folder, secure, simulation
        self.port = own_port()
        self.home = folder / "flwr-home"
        self.home.mkdir(parents=True)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ca = folder / "ca.pem"
        self.env = {
            **os.environ,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }

    def __enter__(self) -> "Federation":
        try:
            self._start_link()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.processes):
            self.kill(name)
        # Ray's, for one, leave the process group.
        for pid in with_variable("FLWR_HOME", str(self.home)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _start_link(self) -> None:
        words = ["--port", str(self.port), "--disable-runtime-dependency-installation"]
        connection = f'address = "127.0.0.1:{self.port}"\n'
        if self.secure:
            make_certificates(self.folder)
            words += ["--ssl-ca-certfile", str(self.ca), "--enable-supernode-auth"]
            words += ["--ssl-certfile", str(self.folder / "server.pem")]
            words += ["--ssl-keyfile", str(self.folder / "server.key")]
            connection += f'root-certificates = "{self.ca}"\n'
        else:
            words.append("--insecure")
            connection += "insecure = true\n"
        if self.simulation:
            words.append("--simulation")
        text = f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{connection}'
        (self.home / "config.toml").write_text(text)
        self._spawn("link", "flower-superlink", *words)
        wait_until(self._healthy, "the SuperLink answers", self.processes["link"])

    def _healthy(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.ca)) if self.secure else None
        url = f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}/health"
        try:
            with urllib.request.urlopen(url, timeout=HANG, context=context) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def start_node(self, number: int, *words: str, fault: str = "", key: str = "") -> str:
        """A SuperNode with a partition of the data. It need not have connected yet."""
        name = key or f"node{number}"
        config = f"partition-id={number}" + (f" fault='{fault}'" if fault else "")
        given = [*words] if words else self._credentials(name)
        address = ["--superlink", f"127.0.0.1:{self.port}", "--port", str(own_port())]
        self._spawn(name, "flower-supernode", *address, "--node-config", config, *given)
        return name

    def _credentials(self, key: str) -> list[str]:
        if not self.secure:
            return ["--insecure"]
        if not (self.folder / key).exists():
            self.flwr("supernode", "register", str(make_key(self.folder / key)))
        private = str(self.folder / key)
        return ["--root-certificates", str(self.ca), "--auth-supernode-private-key", private]

    def run(self, app: Path = APP, *words: str, **config: object) -> "Run":
        """Start a run of an app. Settings are the app's; underscores stand for dashes."""
        given = {k.replace("_", "-"): v for k, v in config.items()}
        text = " ".join(f"{k}={_toml(v)}" for k, v in given.items())
        name = f"run{len([n for n in self.processes if n.startswith('run')])}"
        self._spawn(name, "flwr", "run", str(app), "--stream", "--run-config", text, *words)
        return Run(self, name, Path(str(config["folder"])))

    def flwr(self, *words: str) -> str:
        done = subprocess.run(
            [BIN / "flwr", *words], env=self.env, capture_output=True, text=True, timeout=HANG
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """SIGKILL to a process and all that it started."""
        process = self.processes[name]
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=HANG)

    def _spawn(self, name: str, program: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / program, *words],
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


class Run:
    """A run of an app, whose strategy writes into a folder."""

    def __init__(self, federation: Federation, name: str, folder: Path) -> None:
        self.federation, self.name, self.folder = federation, name, folder

    @property
    def log(self) -> str:
        return self.federation.log(self.name)

    def finish(self) -> "Run":
        """Until the strategy has written its summary."""
        process = self.federation.processes[self.name]

        def over() -> bool:
            if self.summary.exists():
                return True
            # The log may end before the run does.
            return process.poll() is not None and self._has_finished()

        try:
            wait_until(over, f"the end of {self.name}")
            assert self.summary.exists(), "it has ended without a summary"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._told()}") from error
        return self

    @property
    def summary(self) -> Path:
        return self.folder / "summary.json"

    def _has_finished(self) -> bool:
        runs = json.loads(self.federation.flwr("list", "--format", "json"))["runs"]
        return all(run["status"].startswith("finished") for run in runs)

    def _told(self) -> str:
        logs = [self.name, *(n for n in self.federation.processes if not n.startswith("run"))]
        return "\n".join(f"--- {n}\n{self.federation.log(n)[-4000:]}" for n in logs)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else f"'{value}'"


def make_key(path: Path) -> Path:
    """A SuperNode's key pair; gives back the path of the public one."""
    key = ec.generate_private_key(ec.SECP384R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    public = path.with_name(f"{path.name}.pub")
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    )
    return public


def make_certificates(folder: Path) -> None:
    """A certificate authority, and a server certificate of it for loopback."""
    now = datetime.datetime.now(datetime.UTC)

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("test CA"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    signs = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    ca = builder("test CA", ca_key).add_extension(x509.BasicConstraints(True, None), critical=True)
    ca = ca.add_extension(signs, critical=True)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = builder("localhost", key).add_extension(
        x509.SubjectAlternativeName(places), critical=False
    )
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    own = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca, server = ca.add_extension(own, False), server.add_extension(identifier, False)
    for file, made in (("ca.pem", ca), ("server.pem", server)):
        signed = made.sign(ca_key, hashes.SHA256())
        (folder / file).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def copy_of(app: Path, folder: Path) -> Path:
    return Path(shutil.copytree(app, folder, ignore=shutil.ignore_patterns("__pycache__")))
