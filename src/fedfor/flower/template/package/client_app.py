"""What a node does when the server asks."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import fedfor.flower

from .task import new_model, node_data

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    config, (data, _, _) = context.run_config, node_data(context)
    return fedfor.flower.train(
        message,
        context,
        new_model(config["seed"]),
        data,
        epochs=config["epochs"],
        batch_size=config["batch-size"],
        lr=config["lr"],
        seed=config["seed"],
    )


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    _, test, name = node_data(context)
    model = new_model(context.run_config["seed"])
    return fedfor.flower.evaluate(message, context, model, test, name=name)
