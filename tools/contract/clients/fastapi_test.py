"""A shop in FastAPI and its test against the mock server. It waits for the mock's READY_FILE."""

import hashlib
import hmac
import json
import os
import socket
import threading
import time
import unittest
import urllib.request
from decimal import Decimal

import uvicorn
from fastapi import FastAPI, HTTPException, Request

SECRET = os.environ["SECRET"].encode()
TOLERANCE = 300  # seconds; the interface document specifies no tolerance
PRICE, FINAL = Decimal("10.50"), ("SUCCESS", "FAILURE")
mock = {}
results = {}  # stands for a table
app = FastAPI()


def sign(timestamp, body):
    """The mock's default scheme: hex(timestamp "." body)."""
    return hmac.new(SECRET, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


@app.post("/notifications")
async def notifications(request: Request):
    body = await request.body()  # the exact bytes, which a parameter of a model does not have
    timestamps, signatures = request.headers.getlist("timestamp"), request.headers.getlist("signature")
    if len(timestamps) != 1 or len(signatures) != 1:
        raise HTTPException(401)
    if not hmac.compare_digest(sign(timestamps[0], body).encode(), signatures[0].encode()):
        raise HTTPException(401)
    if not timestamps[0].isascii() or not timestamps[0].isdigit() or abs(time.time() - int(timestamps[0])) > TOLERANCE:
        raise HTTPException(401)
    n = json.loads(body, parse_float=Decimal)
    if n["event"] == "payment.status_changed" and n["status_description"] in FINAL and n["amount"] == PRICE:
        results.setdefault(n["user_data"], n["status_description"])  # never overwritten
    return {}


def call(endpoint, **fields):
    body = json.dumps({"partner_id": mock["partner_id"], "project_id": mock["project_id"], **fields}).encode()
    timestamp = str(int(time.time()))
    headers = {"Content-Type": "application/json", "timestamp": timestamp, "signature": sign(timestamp, body)}
    return post(f"{mock['base_url']}/{endpoint}", body, headers)


@app.post("/orders/{user_data}")
def order(user_data: str):
    try:
        return call("init_payment/card", amount=float(PRICE), user_data=user_data)
    except OSError:  # the outcome is unknown: never start the payment again
        return call("status_payment", user_data=user_data)


def post(url, body, headers=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers or {}), timeout=20) as response:
        return json.load(response)


class ShopTest(unittest.TestCase):
    def test_a_lost_response_starts_no_second_payment_and_only_genuine_notifications_count(self):
        while not os.path.exists(os.environ["READY_FILE"]):
            time.sleep(0.02)
        with open(os.environ["READY_FILE"], encoding="utf-8") as file:
            mock.update(json.load(file))
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(setattr, server, "should_exit", True)
        shop = f"http://127.0.0.1:{listener.getsockname()[1]}"
        mock.update(post(mock["control_url"] + "/sessions", {"name": "fastapi", "notify": shop + "/notifications"}))
        control = mock["control_url"]

        post(control + "/faults", {"on": "init_payment", "which": "first", "n": 1, "fault": "drop after"})
        found = post(shop + "/orders/order-1", {})
        post(control + "/expect", {"that": "started", "user_data": "order-1", "count": 1})
        for fault in ["forged", "unsigned", "altered", "late"]:
            post(control + "/notifications", {"order_id": found["order_id"], "faults": [fault]})
        other = call("init_payment/card", amount=1, user_data="order-2")
        post(f"{control}/orders/{other['order_id']}/settle", {"status": "SUCCESS"})
        self.assertEqual(results, {})
        post(control + "/expect", {"that": "forgeries_refused"})
        post(f"{control}/orders/{found['order_id']}/settle", {"status": "SUCCESS"})
        post(f"{control}/orders/{found['order_id']}/refund", {})
        self.assertEqual(results, {"order-1": "SUCCESS"})


if __name__ == "__main__":
    unittest.main()
