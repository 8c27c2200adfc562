"""What the server does: the strategy, and where it writes."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import fedfor.flower

from .task import new_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = fedfor.flower.Strategy(
        config["algorithm"],
        new_model(config["seed"]),
        folder=config["folder"] or None,
        form=config["form"],
        seed=config["seed"],
        fraction_train=config["fraction"],
        fraction_evaluate=config["fraction"],
        min_available_nodes=config["nodes"],
        min_train_nodes=config["nodes"],
        min_evaluate_nodes=config["nodes"],
    )
    strategy.start(grid, num_rounds=config["rounds"], timeout=config["timeout"])
