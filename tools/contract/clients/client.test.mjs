// A partner's test in Node, with only the standard library. It waits for the mock's READY_FILE.
import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const { READY_FILE, SECRET } = process.env;

async function ready() {
  for (;;) {
    try {
      return JSON.parse(await readFile(READY_FILE, "utf8"));
    } catch {
      await sleep(20);
    }
  }
}

// The mock's default scheme: hex(timestamp "." body).
const sign = (timestamp, body) => createHmac("sha256", SECRET).update(`${timestamp}.`).update(body).digest("hex");

async function post(url, value) {
  const resp = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
  return { status: resp.status, ...(await resp.json()) };
}

test("a lost response is reconciled, and the notification is genuine", async (t) => {
  const mock = await ready();
  const notified = [];
  const shop = createServer(async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const body = Buffer.concat(chunks); // a chunk is not text, because it can end within a character
    const [want, have] = [sign(req.headers.timestamp, body), req.headers.signature ?? ""].map((text) => Buffer.from(text));
    const genuine = want.length === have.length && timingSafeEqual(want, have);
    if (genuine) notified.push(JSON.parse(body));
    res.writeHead(genuine ? 200 : 401).end();
  });
  await new Promise((done) => shop.listen(0, "127.0.0.1", done));
  t.after(() => shop.close());
  const notify = `http://127.0.0.1:${shop.address().port}/notifications`;
  const bytes = Buffer.from('{"user_data":"é"}'), inside = bytes.indexOf("é") + 1;
  const headers = { timestamp: "1", signature: sign("1", bytes) };
  const halves = (async function* () { yield* [bytes.subarray(0, inside), bytes.subarray(inside)]; })();
  assert.equal((await fetch(notify, { method: "POST", headers, body: halves, duplex: "half" })).status, 200);
  assert.equal(notified.pop().user_data, "é");

  const session = await post(`${mock.control_url}/sessions`, { name: "node", notify });
  assert.equal(session.status, 201);
  t.after(() => fetch(`${mock.control_url}/sessions/node`, { method: "DELETE" }));
  const call = async (endpoint, fields) => {
    const body = JSON.stringify({ partner_id: mock.partner_id, project_id: mock.project_id, ...fields });
    const timestamp = String(Math.floor(Date.now() / 1000));
    const headers = { "Content-Type": "application/json", timestamp, signature: sign(timestamp, body) };
    const resp = await fetch(`${session.base_url}/${endpoint}`, { method: "POST", headers, body });
    return resp.json();
  };

  await post(`${session.control_url}/faults`, { on: "init_payment", which: "first", n: 1, fault: "drop after" });
  await assert.rejects(call("init_payment/card", { amount: 10.5, user_data: "order-1" }));
  const found = await call("status_payment", { user_data: "order-1" });
  assert.equal(found.user_data, "order-1");
  const started = { that: "started", user_data: "order-1", count: 1 };
  assert.equal((await post(`${session.control_url}/expect`, started)).actual, 1);

  await post(`${session.control_url}/orders/${found.order_id}/settle`, { status: "SUCCESS" });
  for (const fault of ["forged", "unsigned", "altered"]) {
    await post(`${session.control_url}/notifications`, { order_id: found.order_id, faults: [fault] });
  }
  assert.deepEqual(notified.map((n) => n.status_description), ["SUCCESS", "SUCCESS"]);
  assert.equal((await post(`${session.control_url}/expect`, { that: "forgeries_refused" })).status, 200);
  assert.equal((await call("get_balance", {})).payout_balance, 110.5);
});
