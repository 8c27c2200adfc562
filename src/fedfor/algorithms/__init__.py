"""What is computed: ClientOpt x ServerOpt x Sharing, each method in its own file."""

from .adaptive import FedAdagrad, FedAdam, FedYogi
from .algorithm import Algorithm, Weighting, settings
from .average import Average
from .clientopt import ClientOpt, Cohort, Local, Named, Outcome, Scalar, lead
from .fedavg import FedAvg
from .fedcurv import FedCurv
from .feddyn import FedDyn
from .fedfor import FedFOR
from .fedpd import FedPD
from .fedprox import FedProx
from .momentum import FedAvgM, SlowMo
from .presets import CLIENT_OPTS, PRESETS, SERVER_OPTS, algorithm
from .scaffold import Scaffold
from .serveropt import ServerOpt
from .sharing import SHARINGS, Sharing

__all__ = [
    "CLIENT_OPTS",
    "PRESETS",
    "SERVER_OPTS",
    "SHARINGS",
    "Algorithm",
    "Average",
    "ClientOpt",
    "Cohort",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedCurv",
    "FedDyn",
    "FedFOR",
    "FedPD",
    "FedProx",
    "FedYogi",
    "Local",
    "Named",
    "Outcome",
    "Scaffold",
    "Scalar",
    "ServerOpt",
    "Sharing",
    "SlowMo",
    "Weighting",
    "algorithm",
    "lead",
    "settings",
]
