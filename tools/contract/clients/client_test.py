"""A partner's test in Python, with only the standard library. It waits for the mock's READY_FILE."""

import hashlib
import hmac
import http.server
import json
import os
import threading
import time
import unittest
import urllib.error
import urllib.request


def ready():
    while not os.path.exists(os.environ["READY_FILE"]):
        time.sleep(0.02)
    with open(os.environ["READY_FILE"], encoding="utf-8") as file:
        return json.load(file)


def sign(timestamp, body):
    """The mock's default scheme: hex(timestamp "." body)."""
    return hmac.new(os.environ["SECRET"].encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def post(url, value, headers=None):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


class Shop(http.server.BaseHTTPRequestHandler):
    notified = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        genuine = hmac.compare_digest(sign(self.headers["timestamp"], body), self.headers["signature"] or "")
        if genuine:
            self.notified.append(json.loads(body))
        self.send_response(200 if genuine else 401)
        self.end_headers()

    def log_message(self, *args):
        pass


class MockTest(unittest.TestCase):
    def setUp(self):
        self.mock = ready()
        shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
        threading.Thread(target=shop.serve_forever, daemon=True).start()
        self.addCleanup(shop.server_close)
        self.addCleanup(shop.shutdown)
        notify = f"http://127.0.0.1:{shop.server_port}/notifications"
        session = post(self.mock["control_url"] + "/sessions", {"name": "python", "notify": notify})
        self.base, self.control = session["base_url"], session["control_url"]

    def call(self, endpoint, **fields):
        ids = {"partner_id": self.mock["partner_id"], "project_id": self.mock["project_id"]}
        body, timestamp = json.dumps({**ids, **fields}).encode(), str(int(time.time()))
        return post(f"{self.base}/{endpoint}", body, {"timestamp": timestamp, "signature": sign(timestamp, body)})

    def test_a_lost_response_is_reconciled_and_the_notification_is_genuine(self):
        post(self.control + "/faults", {"on": "init_payment", "which": "first", "n": 1, "fault": "drop after"})
        with self.assertRaises(OSError):
            self.call("init_payment/card", amount=10.5, user_data="order-1")
        found = self.call("status_payment", user_data="order-1")
        self.assertEqual(post(self.control + "/expect", {"that": "started", "user_data": "order-1", "count": 1})["actual"], 1)

        post(f"{self.control}/orders/{found['order_id']}/settle", {"status": "SUCCESS"})
        for fault in ["forged", "unsigned", "altered"]:
            post(self.control + "/notifications", {"order_id": found["order_id"], "faults": [fault]})
        self.assertEqual([n["status_description"] for n in Shop.notified], ["SUCCESS", "SUCCESS"])
        post(self.control + "/expect", {"that": "forgeries_refused"})
        self.assertEqual(self.call("get_balance")["payout_balance"], 110.5)

    def test_a_wrong_signature_is_explained(self):
        with self.assertRaises(urllib.error.HTTPError) as raised:
            post(f"{self.base}/get_balance", {"partner_id": 1001, "project_id": 2002}, {"timestamp": "1", "signature": "00"})
        self.assertEqual(raised.exception.code, 401)
        self.assertIn("signature", json.load(raised.exception)["error_message"])

    def tearDown(self):
        urllib.request.urlopen(urllib.request.Request(self.mock["control_url"] + "/sessions/python", method="DELETE")).close()


if __name__ == "__main__":
    unittest.main()
