from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from .task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    model = Net()
    strategy = FedAvg(fraction_train=context.run_config["fraction-train"])
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        train_config=ConfigRecord({"lr": context.run_config["lr"]}),
        num_rounds=context.run_config["num-server-rounds"],
    )
