// node index.test.mjs; Node 20 or later. Countersign is a small server that says what each test tells it to.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, beforeEach, test } from "node:test";
import { accessTokenReader, planReader, routeService, standardProviders } from "./index.mjs";

console.error = () => {};

// What Countersign answers: a status and a body, or "nothing" until the caller gives up.
let answers;
const asked = [];
const countersign = createServer((request, response) => {
  asked.push({ path: request.url, authorization: request.headers.authorization });
  if (answers === "nothing") return;
  response.writeHead(answers.status, { "content-type": "application/json", ...answers.headers });
  response.end(JSON.stringify(answers.body));
});
await new Promise((listening) => countersign.listen(0, "127.0.0.1", listening));
const url = `http://127.0.0.1:${countersign.address().port}`;
after(() => {
  countersign.close();
  countersign.closeAllConnections();
});

const feature = (allowed) => ({ allowed, limit: null, current: null, remaining: null, resets_at: null });
const access = (allowed) => ({
  status: 200,
  body: {
    user_id: "user-1",
    tier: allowed ? "pro" : "free",
    features: { premium_routing_providers: feature(allowed) },
  },
});
const away = { status: 503, body: { code: "ledger_unavailable" } };

let clock;
beforeEach(() => {
  clock = 0;
  asked.length = 0;
  answers = access(true);
});

const line = { distance: 1, duration: 2, geometry: { type: "LineString", coordinates: [] } };
const provider = (name, requiresPaidPlan, route = async () => line) => ({ name, requiresPaidPlan, route });
const free = provider("mapbox", false);
const paid = provider("google", true);

function service(options = {}, providers = [paid, free]) {
  return routeService({ plan: planReader({ url, now: () => clock, ...options }), providers });
}

async function post(handle, body = {}, token = "token-1") {
  const response = await handle(
    new Request("http://routes/", {
      method: "POST",
      headers: token ? { authorization: `Bearer ${token}` } : {},
      body: JSON.stringify({ from: [13.4, 52.5], to: [13.5, 52.6], ...body }),
    }),
  );
  return { status: response.status, ...(await response.json()) };
}

async function providerOf(handle, token) {
  return (await post(handle, {}, token)).provider;
}

test("who has paid gets the paid provider, by the caller's own token", async () => {
  assert.deepEqual(await post(service()), { status: 200, provider: "google", plan: "paid", route: line });
  assert.deepEqual(asked, [{ path: "/v1/profiles/me/access", authorization: "Bearer token-1" }]);
});

test("who has not gets the free one, and a refusal where they name the paid one", async () => {
  answers = access(false);
  const handle = service();
  assert.equal(await providerOf(handle), "mapbox");
  const refused = await post(handle, { provider: "google" });
  assert.equal(refused.status, 403);
  assert.equal(refused.code, "upgrade_required");
  assert.equal((await post(handle, { provider: "mapbox" })).status, 200);
});

test("the list says which providers need a plan and which are the caller's", async () => {
  for (const allowed of [true, false]) {
    answers = access(allowed);
    const request = new Request("http://routes/", { headers: { authorization: "Bearer token-1" } });
    assert.deepEqual((await (await service()(request)).json()).providers, [
      { name: "google", requiresPaidPlan: true, available: allowed },
      { name: "mapbox", requiresPaidPlan: false, available: true },
    ]);
  }
});

test("a yes is kept for 30 seconds and a no for two", async () => {
  for (const [allowed, kept] of [[true, 30_000], [false, 2_000]]) {
    answers = access(allowed);
    const handle = service();
    asked.length = clock = 0;
    await post(handle);
    clock = kept - 1;
    await post(handle);
    assert.equal(asked.length, 1);
    clock = kept;
    answers = access(!allowed);
    assert.equal(await providerOf(handle), allowed ? "mapbox" : "google");
    assert.equal(asked.length, 2);
  }
});

test("requests at once share one question, and callers do not share answers", async () => {
  const handle = service();
  await Promise.all([post(handle), post(handle), post(handle)]);
  assert.equal(asked.length, 1);
  answers = access(false);
  assert.equal(await providerOf(handle, "token-2"), "mapbox");
  assert.equal(await providerOf(handle, "token-1"), "google");
});

const outages = {
  "a server error": away,
  "too many requests": { status: 429, body: {} },
  "a body without the feature": { status: 200, body: { tier: "pro", features: {} } },
  "a redirect, which would carry the token elsewhere": { status: 302, headers: { location: "/" }, body: {} },
  silence: "nothing",
};
for (const [name, outage] of Object.entries(outages)) {
  test(`while Countersign is away, who had paid keeps the plan for ten minutes: ${name}`, async () => {
    const handle = service({ deadline: 500 });
    await post(handle);
    answers = outage;
    clock = 599_999;
    assert.equal(await providerOf(handle), "google");
    clock = 600_000;
    assert.deepEqual(await post(handle), { status: 200, provider: "mapbox", plan: "unknown", route: line });
    // Back again.
    answers = access(true);
    clock += 2_000;
    assert.equal(await providerOf(handle), "google");
  });
}

test("while the plan cannot be told, who names the paid provider gets a free route and no paywall", async () => {
  answers = access(false);
  const handle = service();
  await post(handle);
  answers = away;
  clock = 2_000;
  for (const token of ["token-1", "token-2"]) {
    const answer = await post(handle, { provider: "google" }, token);
    assert.deepEqual([answer.status, answer.provider, answer.plan], [200, "mapbox", "unknown"]);
  }
});

test("an outage is asked about every two seconds, not by each request", async () => {
  answers = away;
  const handle = service();
  for (clock = 0; clock < 4_000; clock += 500) await post(handle);
  assert.equal(asked.length, 2);
});

test("a token that is refused has no plan, whatever it had", async () => {
  const handle = service();
  await post(handle);
  clock = 30_000;
  answers = { status: 401, body: {} };
  assert.equal((await post(handle)).status, 401);
  answers = away;
  clock = 32_000;
  assert.equal((await post(handle)).plan, "unknown");
  assert.equal((await post(handle, {}, null)).status, 401);
});

test("no more callers are kept than there is room for, and the one who came last stays", async () => {
  const handle = service({ callers: 2 });
  for (const token of ["1", "2", "1", "3"]) await post(handle, {}, token);
  assert.equal(asked.length, 3);
  await post(handle, {}, "1");
  assert.equal(asked.length, 3);
  await post(handle, {}, "2");
  assert.equal(asked.length, 4);
  // Tokens that are refused take nobody's place.
  answers = { status: 401, body: {} };
  for (const token of ["4", "5", "6"]) assert.equal((await post(handle, {}, token)).status, 401);
  answers = away;
  assert.equal(await providerOf(handle, "2"), "google");
});

test("a provider that fails is followed by the next that the caller may use", async () => {
  const fails = async () => {
    throw new Error("down");
  };
  const providers = [provider("google", true, fails), provider("mapbox", false, fails), provider("ors", false)];
  const handle = service({}, providers);
  assert.equal(await providerOf(handle), "ors");
  answers = access(false);
  const none = service({}, [paid, provider("mapbox", false, fails)]);
  assert.deepEqual((await post(none)).status, 502);
});

test("a request that is not one is said so", async () => {
  const handle = service();
  for (const body of [{ from: null }, { to: [1] }, { to: ["1", "2"] }, { provider: "nobody" }]) {
    assert.equal((await post(handle, body)).status, 400);
  }
  const request = new Request("http://routes/", {
    method: "POST",
    headers: { authorization: "Bearer token-1" },
    body: "{",
  });
  assert.equal((await handle(request)).status, 400);
});

test("each provider is asked as its documentation says, and all answer alike", async () => {
  const geometry = { type: "LineString", coordinates: [[13.4, 52.5], [13.5, 52.6]] };
  const said = {
    "routes.googleapis.com": {
      routes: [{ distanceMeters: 9, duration: "5s", polyline: { geoJsonLinestring: geometry } }],
    },
    "api.mapbox.com": { routes: [{ distance: 9, duration: 5, geometry, weight: 1 }] },
    "api.openrouteservice.org": { features: [{ properties: { summary: { distance: 9, duration: 5 } }, geometry }] },
  };
  const requests = [];
  const providers = standardProviders({
    googleKey: "g",
    mapboxKey: "m",
    openRouteServiceKey: "o",
    fetch: async (url, options) => {
      requests.push(`${url} ${options.body ?? ""}`);
      return Response.json(said[new URL(url).host]);
    },
  });
  for (const each of providers) {
    assert.deepEqual(await each.route([13.4, 52.5], [13.5, 52.6]), { distance: 9, duration: 5, geometry }, each.name);
  }
  assert.match(requests[0], /"origin":\{"location":\{"latLng":\{"latitude":52.5,"longitude":13.4\}\}\}/);
  assert.match(requests[1], /mapbox\/cycling\/13.4,52.5;13.5,52.6\?/);
  assert.match(requests[2], /start=13.4,52.5&end=13.5,52.6 $/);
});

// Access tokens, signed here as Countersign signs them.

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const ecdsa = { name: "ECDSA", namedCurve: "P-256" };

async function signer(kid) {
  const pair = await crypto.subtle.generateKey(ecdsa, true, ["sign", "verify"]);
  const jwk = { ...(await crypto.subtle.exportKey("jwk", pair.publicKey)), kid, alg: "ES256", use: "sig" };
  async function sign(claims = {}, header = {}) {
    const signed = `${encoded({ alg: "ES256", kid, typ: "access+jwt", ...header })}.${encoded({
      sub: "user-1",
      iat: 0,
      exp: 3600,
      features: { premium_routing_providers: true },
      ...claims,
    })}`;
    const algorithm = { name: "ECDSA", hash: "SHA-256" };
    const signature = await crypto.subtle.sign(algorithm, pair.privateKey, new TextEncoder().encode(signed));
    return `${signed}.${Buffer.from(signature).toString("base64url")}`;
  }
  return { jwk, sign };
}

const first = await signer("first");
const keySet = (...signers) => ({ status: 200, body: { keys: signers.map((each) => each.jwk) } });
const tokenService = (options = {}) =>
  routeService({ plan: accessTokenReader({ url, now: () => clock, ...options }), providers: [paid, free] });

test("an access token tells the plan, and only the keys are asked for, once", async () => {
  answers = keySet(first);
  const handle = tokenService();
  assert.equal(await providerOf(handle, await first.sign()), "google");
  assert.equal(await providerOf(handle, await first.sign({ features: {} })), "mapbox");
  const limit = { premium_routing_providers: { allowed: true, limit: null, remaining: null } };
  assert.equal(await providerOf(handle, await first.sign({ features: limit })), "google");
  assert.deepEqual(asked, [{ path: "/.well-known/jwks.json", authorization: undefined }]);
});

test("a token that is forged, over, of another kind or another audience is refused", async () => {
  answers = keySet(first);
  const stranger = await signer("first");
  const [head, body, signature] = (await first.sign()).split(".");
  const changed = `${head}.${encoded({ sub: "user-1", exp: 9e9, features: { premium_routing_providers: true } })}`;
  const handle = tokenService({ audience: "routes" });
  for (const token of [
    await stranger.sign({ aud: "routes" }),
    `${changed}.${signature}`,
    await first.sign({ aud: "routes" }, { alg: "none" }),
    await first.sign({ aud: "routes" }, { typ: "JWT" }),
    await first.sign({ aud: "other" }),
    await first.sign({ aud: "routes", exp: 0 }),
    `${head}.${body}`,
    "token-1",
    "a.b.c",
  ]) {
    assert.equal((await post(handle, {}, token)).status, 401, token);
  }
  assert.equal((await post(handle, {}, await first.sign({ aud: "routes" }))).status, 200);
  clock = 3_600_000;
  assert.equal((await post(handle, {}, await first.sign({ aud: "routes" }))).status, 401);
});

test("a new key is fetched when it is seen, and a made-up one asks once a minute", async () => {
  answers = keySet(first);
  const second = await signer("second");
  const handle = tokenService();
  assert.equal((await post(handle, {}, await second.sign())).status, 401);
  answers = keySet(second, first);
  assert.equal((await post(handle, {}, await second.sign())).status, 401);
  assert.equal(asked.length, 1);
  clock = 60_000;
  assert.equal((await post(handle, {}, await second.sign())).status, 200);
  assert.equal((await post(handle, {}, await first.sign())).status, 200);
  assert.equal(asked.length, 2);
});

test("while the keys cannot be fetched the plan is unknown: a free route, and no paywall", async () => {
  answers = away;
  const handle = tokenService();
  const answer = await post(handle, { provider: "google" }, await first.sign());
  assert.equal(answer.plan, "unknown");
  assert.equal(answer.provider, "mapbox");
  // Known keys go on counting.
  answers = keySet(first);
  clock = 60_000;
  assert.equal(await providerOf(handle, await first.sign()), "google");
  answers = away;
  clock = 3_599_000;
  assert.equal(await providerOf(handle, await first.sign()), "google");
});

test("who comes while the keys are fetched waits for them too, at a cold start and at a rotation", async () => {
  answers = keySet(first);
  const handle = tokenService();
  const both = async (token) => Promise.all([providerOf(handle, token), providerOf(handle, token)]);
  assert.deepEqual(await both(await first.sign()), ["google", "google"]);
  const second = await signer("second");
  answers = keySet(second, first);
  clock = 60_000;
  assert.deepEqual(await both(await second.sign()), ["google", "google"]);
  assert.equal(asked.length, 2);
});

test("a key that is new while the keys cannot be fetched is unknown, and no refusal", async () => {
  answers = keySet(first);
  const second = await signer("second");
  const handle = tokenService();
  assert.equal(await providerOf(handle, await first.sign()), "google");
  answers = away;
  for (clock of [60_000, 61_000]) {
    const answer = await post(handle, { provider: "google" }, await second.sign());
    assert.deepEqual([answer.status, answer.provider, answer.plan], [200, "mapbox", "unknown"]);
    assert.equal(await providerOf(handle, await first.sign()), "google");
  }
  assert.equal(asked.length, 2);
  answers = keySet(second, first);
  clock = 120_000;
  assert.equal(await providerOf(handle, await second.sign()), "google");
});
