# Frames that say to be arrays: bytes that are no truth values, shapes without data, dtypes with code.
import sys

Server = sys.modules["worker.server"].Server
VALUES = [
    ["np", "AgIC", "|b1", "3"],
    ["np", "", "<f8", "1000000000000,1000000000000"],
    ["np", "AAAAAAAAAAA=", "O", ""],
    ["np", "AAAAAAAAAAA=", "f8,(9999999,)f8", ""],
    ["np", "/////w==", "<U1", ""],
    ["np.s", "Ag==", "|b1"],
]
calls = iter(range(10**6))
Server._call = lambda self, request: {"value": VALUES[next(calls) % len(VALUES)]}


def f(x):
    return 0
