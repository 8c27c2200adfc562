import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from .task import Net, load_data
from .task import test as test_fn
from .task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    trainloader = load_data(context.node_config["partition-id"])
    epochs = context.run_config["local-epochs"]
    optimizer = torch.optim.SGD(model.parameters(), lr=msg.content["config"]["lr"])
    train_loss = train_fn(model, trainloader, optimizer, epochs)
    metrics = {"train_loss": train_loss, "num-examples": len(trainloader.dataset)}
    records = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)}
    return Message(RecordDict(records), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loader = load_data(context.node_config["partition-id"])
    metrics = {"accuracy": test_fn(model, loader), "num-examples": len(loader.dataset)}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
