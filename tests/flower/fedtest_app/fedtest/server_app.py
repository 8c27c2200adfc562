import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import fedfor.flower

from .task import new_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    if config["marks"]:
        (Path(config["marks"]) / "server.pid").write_text(str(os.getpid()))
    strategy = fedfor.flower.Strategy(
        config["algorithm"],
        new_model(),
        folder=config["folder"],
        form=config["form"],
        min_replies=config["min-replies"],
        min_available_nodes=config["nodes"],
        min_train_nodes=config["nodes"],
        patience=config["timeout"],
        fraction_evaluate=0.0,
    )
    strategy.start(grid, num_rounds=config["rounds"], timeout=config["timeout"])
