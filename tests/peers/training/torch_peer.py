# SPDX-License-Identifier: MIT
"""torch_peer.py -- trains a model with PyTorch when it is told to. Started by training.

    torch_peer.py MODEL DATA IMAGES BATCH THREADS SETTING

SETTING is plus-separated words: `eager`, `last` (channels_last activations and weights), `compile`
(torch.compile of the model with its loss), `shuffle`. Unknown words only tell settings apart. Adam
in its fused form; batches that are not shuffled are views of what is in memory; no loss is read
back, which only helps this side.

Talks in lines as tensorflow_peer.py does.
"""
import copy
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

import samples


def cifar10_cnn():
    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(7200, 64), nn.ReLU(), nn.Linear(64, 10))


def mnist_mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64),
                         nn.ReLU(), nn.Linear(64, 10))


class Block(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        stride = 2 if filters != channels else 1
        self.first = nn.Conv2d(channels, filters, 3, stride, 1)
        self.norm1 = nn.BatchNorm2d(filters)
        self.second = nn.Conv2d(filters, filters, 3, 1, 1)
        self.norm2 = nn.BatchNorm2d(filters)
        self.short = nn.Conv2d(channels, filters, 1, 2) if stride == 2 else nn.Identity()

    def forward(self, x):
        h = functional.relu(self.norm1(self.first(x)))
        return functional.relu(self.short(x) + self.norm2(self.second(h)))


def resnet20():
    modules, channels = [nn.Conv2d(3, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU()], 16
    for filters in (16, 32, 64):
        for _ in range(3):
            modules.append(Block(channels, filters))
            channels = filters
    return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


MODELS = {"cifar10-cnn": cifar10_cnn, "mnist-mlp": mnist_mlp, "resnet20": resnet20}


def batches(x, y, batch, shuffle):
    if not shuffle:
        yield from zip(x.split(batch), y.split(batch))
        return
    for index in torch.randperm(len(x)).split(batch):
        yield x[index], y[index]


def epoch(loss, optimizer, source):
    for x, y in source:
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()


def main():
    name, data, images, batch, threads, setting = sys.argv[1:]
    words = setting.split("+")
    torch.set_num_threads(int(threads))
    layout = torch.channels_last if "last" in words else torch.contiguous_format

    def tensors(part, count):
        x, y = samples.read(data, part, count)
        x = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(memory_format=layout)
        return x, torch.from_numpy(y).long()

    model = MODELS[name]().to(memory_format=layout)
    optimizer = torch.optim.Adam(model.parameters(), 0.001, fused=True)

    def loss(x, y):
        return functional.cross_entropy(model(x), y)

    if "compile" in words:
        loss = torch.compile(loss)
    x, y = tensors("train", int(images))
    first = copy.deepcopy(model.state_dict())
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"parameters": parameters, "images": len(x)}), flush=True)
    for line in sys.stdin:
        if line.strip() == "train":
            begin = time.perf_counter()
            epoch(loss, optimizer, batches(x, y, int(batch), "shuffle" in words))
            answer = {"seconds": time.perf_counter() - begin}
        elif line.strip() == "restart":
            model.load_state_dict(first)
            optimizer.state.clear()
            answer = {"restarted": True}
        else:
            model.eval()
            with torch.no_grad():
                x_test, y_test = tensors("test", 10**9)
                right = torch.cat([model(part).argmax(1) for part in x_test.split(256)]) == y_test
            model.train()
            answer = {"accuracy": right.float().mean().item()}
        print(json.dumps(answer), flush=True)


main()
