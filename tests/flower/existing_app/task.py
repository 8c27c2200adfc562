"""An app as Flower's quick start has it: FedAvg, and a loop of one's own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def Net() -> nn.Module:  # noqa: N802
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


def load_data(partition_id: int) -> DataLoader:
    draw = torch.Generator().manual_seed(partition_id)
    x = torch.randn(40, 4, generator=draw) + partition_id
    return DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=8)


def train(net, trainloader, optimizer, epochs):
    net.train()
    total = 0.0
    for _ in range(epochs):
        for x, y in trainloader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(trainloader))


def test(net, loader):
    net.eval()
    with torch.no_grad():
        right = [(net(x).argmax(1) == y).float().mean().item() for x, y in loader]
    return sum(right) / len(right)
