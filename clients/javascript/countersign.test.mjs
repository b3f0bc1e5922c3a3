// node --test clients/javascript/; Node 20. Time is moved by hand: no test sleeps.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, test } from "node:test";
import { createClient, CountersignError, Event, version } from "./countersign.js";
import { expoStore } from "./expo.js";
import { preview } from "./preview.js";
import { createHooks } from "./hooks.js";
import { validate } from "./server.js";
import { createTrials, trials } from "./trials.js";
import { reference } from "./reference.mjs";
import { DAY, HOUR, newKey, problem, Service, sign, Storage, Time, turns, until } from "./fake.mjs";

const TOKEN = "GET /v1/profiles/me/token";
const POST = "POST /v1/validations";
const PROFILE = "GET /v1/profiles/me";
const USAGE = "POST /v1/profiles/me/usage/questions";
const key = await newKey("key-1");
const anotherKey = await newKey("key-1");
const pinned = { keys: [key.jwk] };

let time, service, storage, clients, ahead, offline, underWay;
beforeEach(async () => {
  [time, storage, clients, ahead, offline, underWay] = [new Time(), new Storage(), [], 0, false, 0];
  // Time moves on when every request has its answer, or the deadlines of all would pass at once.
  time.settled = async () => {
    do await turns();
    while (underWay > 0);
  };
  service = new Service(time, key);
  await service.open();
});
afterEach(() => {
  for (const each of clients) each.close();
  service.close();
});

function client(options = {}) {
  const made = createClient({
    baseURL: service.url,
    token: async () => "good",
    user: "user-1",
    storage,
    keys: pinned,
    fetch: online,
    now: () => time.now + ahead,
    wait: time.wait,
    ...options,
  });
  clients.push(made);
  return made;
}

async function online(...all) {
  if (offline) throw new TypeError("offline");
  underWay += 1;
  try {
    const response = await fetch(...all);
    const text = await response.clone().text();
    return Object.defineProperty(response, "text", { value: async () => text });
  } finally {
    underWay -= 1;
  }
}

const place = (name) => `countersign.${name}.${new URL(service.url).host.replace(":", "_")}.user-1`;

/** A client of an app that was killed and started again. */
async function restarted(options) {
  for (const each of clients) each.close();
  const next = client(options);
  await next.start();
  return next;
}

async function cached(claims, { by = key, header } = {}) {
  storage.items.set(place("token"), await sign(by, { ...service.claims(), ...claims }, header));
  offline = true;
}

const fails = (kind, code) => (error) => {
  assert.ok(error instanceof CountersignError, error);
  assert.deepEqual([error.kind, error.code], [kind, code]);
  return true;
};

// What is known.

test("before the first answer the state is unknown, and nothing is allowed or refused", async () => {
  offline = true;
  const app = client();
  assert.equal(app.state.kind, "unknown");
  await app.start();
  assert.deepEqual(app.state, { kind: "unknown", access: null, since: null });
  assert.equal(app.isAllowed("filters"), null);
});

test("a fresh token is known, after an hour it is old, after seven days unknown", async () => {
  service.access.features = { filters: true, children: { allowed: true, limit: 99, remaining: 97 }, export: false };
  const app = client();
  const { kind, access, since } = await app.refresh();
  assert.equal(kind, "known");
  assert.equal(since.getTime(), time.now);
  assert.deepEqual([access.user, access.tier, access.status, access.environment], ["user-1", "free", "active", "production"]);
  assert.equal(access.verified, true);
  assert.deepEqual(["filters", "children", "export", "none", "constructor", "__proto__"].map(app.isAllowed),
    [true, true, false, false, false, false]);
  ahead = HOUR - 1;
  assert.equal(app.state.kind, "known");
  ahead = HOUR;
  assert.equal(app.state.kind, "old");
  assert.equal(app.isAllowed("filters"), true);
  ahead = 7 * DAY - 1;
  assert.equal(app.state.kind, "old");
  ahead = 7 * DAY;
  assert.equal(app.state.kind, "unknown");
  assert.equal(app.access, null);
});

test("no state lasts past access_until", async () => {
  service.access.until = time.now / 1000 + 600;
  const app = client();
  await app.refresh();
  ahead = 599_999;
  assert.equal(app.state.kind, "known");
  ahead = 600_000;
  assert.equal(app.state.kind, "unknown");
  // Also where a token says otherwise.
  const now = time.now / 1000;
  await cached({ exp: now + 3600, offline_until: now + 86_400, access_until: now + 60 });
  ahead = 0;
  const next = await restarted();
  assert.equal(next.state.kind, "known");
  ahead = 60_000;
  assert.equal(next.state.kind, "unknown");
});

test("a state that is held counts until the end of the hold", async () => {
  const now = time.now / 1000;
  Object.assign(service, { held: now + 2 * 86_400, access: { ...service.access, tier: "pro", until: now - 60 } });
  const app = client();
  assert.equal((await app.refresh()).access.tier, "pro");
  ahead = 2 * DAY - 1;
  assert.equal(app.state.kind, "old");
  ahead = 2 * DAY;
  assert.equal(app.state.kind, "unknown");
});

// Forged and foreign tokens.

const forgeries = {
  "a payload that was changed": async () => {
    const [head, , signature] = (await sign(key, service.claims())).split(".");
    const claims = Buffer.from(JSON.stringify({ ...service.claims(), tier: "pro" })).toString("base64url");
    return [head, claims, signature].join(".");
  },
  "a signature by another key of the same name": () => sign(anotherKey, service.claims()),
  "a key that is not pinned": () => sign({ ...anotherKey, kid: "key-2" }, service.claims()),
  "alg none": async () => `${(await sign(key, service.claims(), { alg: "none" })).split(".").slice(0, 2).join(".")}.`,
  "alg HS256": () => sign(key, service.claims(), { alg: "HS256" }),
  "a token of another kind": () => sign(key, service.claims(), { typ: "JWT" }),
  "a critical header": () => sign(key, service.claims(), { crit: ["x"] }),
  "another user's token": () => sign(key, { ...service.claims(), sub: "user-2" }),
  "no times": () => sign(key, { sub: "user-1", tier: "pro", features: {} }),
  "no token": async () => "nonsense",
};
for (const [name, forge] of Object.entries(forgeries)) {
  test(`${name} is not used, neither from the cache nor from the network`, async () => {
    const token = await forge();
    storage.items.set(place("token"), token);
    service.next(TOKEN, (answer) => answer(200, { token }));
    const app = client();
    assert.equal((await app.start()).kind, "unknown");
    await until(() => service.count(TOKEN) === 1);
    await app.refresh().catch(fails("refused", "untrusted_token"));
    assert.equal(app.state.kind, "unknown");
  });
}

test("without pinned keys they are fetched once, kept beside the token, and again for a key that is new", async () => {
  const app = client({ keys: null });
  await app.refresh();
  await app.refresh();
  assert.equal(service.count("GET /.well-known/jwks.json"), 1);
  offline = true;
  const next = await restarted({ keys: null });
  assert.equal(next.state.kind, "known");
  assert.equal(next.access.verified, true);
  await turns();
  offline = false;
  const second = await newKey("key-2");
  Object.assign(service, { key: second, keys: [second.jwk, key.jwk] });
  assert.equal((await next.refresh()).kind, "known");
  assert.equal(service.count("GET /.well-known/jwks.json"), 2);
});

test("without WebCrypto an injected function verifies, and without that access says so", async () => {
  let asked = 0;
  const own = client({ verify: (jwk, signature, data) => (asked += 1, jwk.kid === "key-1" && signature.length === 64 && data.length > 0) });
  assert.equal((await own.refresh()).access.verified, true);
  assert.equal(asked, 1);
  assert.equal((await client({ verify: () => false }).refresh().catch((error) => error)).code, "untrusted_token");
  assert.equal((await client({ verify: null }).refresh()).access.verified, false);
});

test("pinned keys that nothing can check are an error, unless that is wanted", async () => {
  const crypto = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  Object.defineProperty(globalThis, "crypto", { value: {}, configurable: true });
  try {
    assert.throws(() => client(), /verify/);
    assert.equal(client({ verify: null }).state.kind, "unknown");
    assert.equal(client({ verify: () => true }).state.kind, "unknown");
    assert.equal(client({ keys: null }).state.kind, "unknown");
  } finally {
    Object.defineProperty(globalThis, "crypto", crypto);
  }
});

const stored = {
  "no key": '{"keys":[null]}',
  "no list": '{"keys":{}}',
  "another key of the same name": JSON.stringify({ keys: [anotherKey.jwk] }),
  "a key that is none": '{"keys":[{"kid":"key-1","kty":"EC"}]}',
};
for (const [name, keys] of Object.entries(stored)) {
  test(`stored keys that have ${name} are fetched again, once`, async () => {
    storage.items.set(place("keys"), keys);
    storage.items.set(place("token"), await sign(key, service.claims()));
    const app = client({ keys: null });
    for (let time = 0; time < 2; time += 1) assert.equal((await app.refresh()).access.verified, true);
    assert.equal(service.count("GET /.well-known/jwks.json"), 1);
    assert.deepEqual(JSON.parse(storage.items.get(place("keys"))), { keys: [key.jwk] });
  });
}

test("a clock set back makes it unknown, five minutes do not, and a clock ahead makes it old", async () => {
  const app = client();
  await app.refresh();
  ahead = -300_000;
  assert.equal(app.state.kind, "known");
  ahead = -300_001;
  assert.equal(app.state.kind, "unknown");
  ahead = 2 * HOUR;
  assert.equal(app.state.kind, "old");
  ahead = 0;
  assert.equal(app.state.kind, "known");
  ahead = -DAY;
  offline = true;
  assert.equal((await restarted()).state.kind, "unknown");
});

test("a device whose clock is wrong knows what it was told just now, also offline after a restart, and for no longer", async () => {
  for (const wrong of [-8 * DAY, 30 * DAY]) {
    [ahead, offline] = [wrong, false];
    assert.equal((await client().refresh()).kind, "known");
    offline = true;
    for (const [since, kind] of [[0, "known"], [7 * DAY - 1, "old"], [7 * DAY, "unknown"], [-300_001, "unknown"]]) {
      ahead = wrong + since;
      assert.equal((await restarted()).state.kind, kind, `${wrong} ${since}`);
    }
    // Set right, it was set since the answer.
    ahead = 0;
    assert.equal((await restarted()).state.kind, "unknown");
  }
});

test("a clock that is set right while the app runs is noticed within a minute, and the service is asked", async () => {
  for (const wrong of [600_000, -8 * DAY, 8 * DAY]) {
    ahead = wrong;
    const app = await restarted({ storage: new Storage() });
    await until(() => app.state.kind === "known");
    const count = service.count(TOKEN);
    ahead = 0;
    assert.equal(app.state.kind, "unknown");
    await time.advance(60_000);
    await until(() => app.state.kind === "known");
    assert.equal(service.count(TOKEN), count + 1);
    // The next hour is by the new clock.
    await time.advance(HOUR);
    await until(() => service.count(TOKEN) === count + 2);
  }
});

test("a purchase that waits by a former clock is posted after that is set right", async () => {
  ahead = 8 * DAY;
  service.away(TOKEN, 2);
  service.away(POST);
  const app = client();
  await app.start();
  await assert.rejects(app.purchase("jws-1"));
  assert.equal(app.state.kind, "unknown");
  ahead = 0;
  for (let minutes = 0; minutes < 3; minutes += 1) await time.advance(60_000);
  await until(() => service.purchases.has("jws-1"));
});

test("a clock that is set right is no reason to forget the hourly question where the app asked first", async () => {
  ahead = 8 * DAY;
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  ahead = 0;
  await app.refresh();
  const count = service.count(TOKEN);
  await time.advance(HOUR);
  await until(() => service.count(TOKEN) === count + 1);
});

// Requests.

test("isAllowed makes no request, and a million calls take less than a second of the processor", async () => {
  const app = client({ now: Date.now });
  time.now = Math.floor(Date.now() / 1000) * 1000;
  await app.refresh();
  const before = service.requests.length;
  const begin = process.cpuUsage();
  for (let call = 0; call < 1_000_000; call += 1) app.isAllowed("filters");
  const { user, system } = process.cpuUsage(begin);
  assert.ok(user + system < 1_000_000);
  await turns();
  assert.equal(service.requests.length, before);
});

test("50 callers of refresh share one request", async () => {
  const app = client();
  const states = await Promise.all(Array.from({ length: 50 }, () => app.refresh()));
  assert.equal(new Set(states).size, 1);
  assert.equal(service.count(TOKEN), 1);
});

test("a refresh that fails leaves the state to the clock and is reported", async () => {
  const app = client();
  await app.refresh();
  service.away(TOKEN);
  const heard = [];
  app.subscribe(() => heard.push(app.error?.code));
  await assert.rejects(app.refresh(), fails("later", "ledger_unavailable"));
  assert.deepEqual(heard, ["ledger_unavailable"]);
  assert.equal(app.state.kind, "known");
  assert.equal(app.error.status, 503);
  await app.refresh();
  assert.equal(app.error, null);
});

test("a service that does not answer is given up after ten seconds", async () => {
  service.next(TOKEN, () => {});
  const refresh = client().refresh();
  await until(() => service.count(TOKEN) === 1);
  const rejected = assert.rejects(refresh, fails("later", "network"));
  await time.advance(10_000, turns);
  await rejected;
});

test("an answer without an end, and one that is no JSON, are no answer", async () => {
  service.next(TOKEN, (_, response) => response.writeHead(200, { "content-length": 1e9 }).write("{"));
  await assert.rejects(client({ fetch }).refresh(), fails("later", "network"));
  service.next(POST, (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>Welcome to the hotel"));
  await assert.rejects(client().purchase("jws-1"), fails("later", "bad_answer"));
  service.next(POST, (answer) => answer(200, { welcome: true }));
  await assert.rejects(client().purchase("jws-1"), fails("later", "bad_answer"));
});

test("after a 401 the app is asked for a fresh bearer token once", async () => {
  const asked = [];
  const app = client({ token: async ({ fresh }) => (asked.push(fresh), fresh ? "good" : "stale") });
  assert.equal((await app.refresh()).kind, "known");
  assert.deepEqual(asked, [false, true]);
});

test("two 401s, and no bearer token, are signedOut, and the purchase is kept", async () => {
  await assert.rejects(client({ token: async () => "bad" }).purchase("jws-1"), fails("signedOut", "unauthenticated"));
  assert.equal(service.count(POST), 2);
  await assert.rejects(client({ token: async () => null }).refresh(), fails("signedOut", "unauthenticated"));
  const app = await restarted();
  await until(() => service.purchases.has("jws-1"));
  assert.equal((await app.retry()).kept.length, 0);
});

test("a gateway's 401 signs nobody out: it passes, and the purchase is kept", async () => {
  const app = client();
  for (const say of [(response) => response.end("<h1>Sign in"), (response) => response.end('{"message":"Unauthorized"}')]) {
    for (const what of [TOKEN, POST]) {
      for (let time = 0; time < 2; time += 1) service.next(what, (_, response) => say(response.writeHead(401)));
    }
    await assert.rejects(app.refresh(), fails("later", "bad_answer"));
    await assert.rejects(app.purchase("jws-1"), fails("later", "bad_answer"));
  }
  assert.deepEqual((await app.retry()).done, ["jws-1"]);
});

const bearer = (claims) => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`;
const UUID = "5c6f7a1e-94c1-4f1c-9b0e-0d9f2f6a7b3c";

test("nothing is sent under another user's bearer token, and the purchase stays this user's", async () => {
  const theirs = bearer({ sub: "user-2" });
  service.bearers.add(theirs);
  const app = client({ token: async () => theirs });
  await assert.rejects(app.purchase("jws-1"), fails("signedOut", "unauthenticated"));
  await assert.rejects(app.refresh(), fails("signedOut", "unauthenticated"));
  assert.equal(service.requests.length, 0);
  assert.equal(storage.items.get(place("purchases")), '["jws-1"]');
  // Letters count, except in a UUID.
  await assert.rejects(client({ token: async () => bearer({ sub: "USER-1" }) }).refresh(), fails("signedOut", "unauthenticated"));
  const upper = bearer({ sub: UUID.toUpperCase() });
  service.bearers.add(upper);
  service.user = UUID;
  assert.equal((await client({ user: UUID, token: () => upper }).refresh()).kind, "known");
});

test("a bearer token that names nobody is sent as it is", async () => {
  const nobody = ["opaque", "a.b", "a.%%%.c", "a.b.c.d", bearer(null), bearer([]), bearer({})];
  for (const each of [...nobody, bearer({ sub: "user-1" })]) {
    service.bearers.add(each);
    assert.equal((await client({ token: async () => each }).refresh()).kind, "known", each);
  }
});

for (const end of ["close", "signOut"]) {
  test(`nothing is sent after ${end}, also where the bearer token comes later`, async () => {
    let give;
    const app = client({ token: () => new Promise((given) => (give = given)) });
    const purchase = app.purchase("jws-1");
    await until(() => give);
    const ended = app[end]();
    give("good");
    await assert.rejects(purchase, fails("signedOut", "unauthenticated"));
    await ended;
    await assert.rejects(app.consume("questions"), fails("signedOut", "unauthenticated"));
    await app.start();
    await turns();
    assert.equal(service.requests.length, 0);
    assert.equal(time.timers.size, 0);
    assert.equal(storage.items.get(place("purchases")), '["jws-1"]');
  });
}

test("nothing is sent while signOut waits for storage", async () => {
  let give;
  const slow = { getItem: () => new Promise((given) => (give = given)), setItem() {}, removeItem() {} };
  const app = client({ storage: slow });
  const refresh = assert.rejects(app.refresh(), fails("signedOut", "unauthenticated"));
  app.signOut();
  for (let read = 0; read < 4; read += 1) {
    await turns();
    give(await sign(key, service.claims()));
  }
  await refresh;
  assert.equal(service.requests.length, 0);
  assert.equal(app.state.kind, "unknown");
});

test("a listener hears each change once, and nothing after it has left; the snapshot stays the same meanwhile", async () => {
  const app = client();
  const heard = [];
  const leave = app.subscribe((state) => heard.push(state.kind));
  await app.refresh();
  await turns();
  assert.deepEqual(heard, ["known"]);
  assert.equal(app.getSnapshot(), app.getSnapshot());
  assert.equal(app.getSnapshot(), app.state);
  leave();
  await app.signOut();
  await turns();
  assert.deepEqual(heard, ["known"]);
});

test("the provider makes the user's client, the hooks read it, and it is closed with the user", async () => {
  let value, made, effect, returned;
  const React = {
    createContext: () => ({ Provider: "provider" }),
    createElement: (type, props, children) => ({ type, ...props, children }),
    useContext: () => value,
    useEffect: (run) => (effect = run),
    useRef: (current) => ({ current }),
    useState: () => [made, (next) => (made = next)],
    useSyncExternalStore: (subscribe, snapshot) => (subscribe(() => {})(), snapshot()),
  };
  const { CountersignProvider, useClient, useAccess, useFeature } = createHooks(React);
  const options = { baseURL: service.url, token: async () => "good", keys: pinned, fetch: online, now: () => time.now, wait: time.wait };
  const onForeground = (refresh) => ((returned = refresh), () => (returned = null));
  const nothing = { kind: "unknown", allowed: null, limit: null, remaining: null };
  const render = (user) => CountersignProvider({ user, options, onForeground, children: "the app" });

  value = null;
  assert.deepEqual(useFeature("filters"), nothing);
  render(null);
  assert.equal(effect(), undefined);
  assert.equal(render("user-1").children, "the app");
  const leave = effect();
  ({ value } = render("user-1"));
  assert.deepEqual([useClient(), useFeature("filters")], [made.client, nothing]);
  await until(() => value.access);
  assert.equal(useAccess(), value.state);
  assert.deepEqual(useFeature("filters"), { kind: "known", allowed: false, limit: null, remaining: null });
  assert.deepEqual(useFeature("questions"), { kind: "known", allowed: true, limit: 10, remaining: 10 });
  returned();
  await until(() => service.count(TOKEN) === 2);
  // The next user's first rendering comes before the effect.
  for (const user of ["user-2", null]) assert.equal(render(user).value, null);
  leave();
  assert.deepEqual([made, returned], [null, null]);
  await assert.rejects(value.refresh(), fails("signedOut", "unauthenticated"));
});

test("a server posts with its key: a verdict, a refusal, and trouble of its own are three answers", async () => {
  const post = (receipt_data, options) =>
    validate({ user_id: "user-1", receipt_data }, { baseURL: `${service.url}/`, key: "good", ...options });
  const { status, verdict } = await post("jws");
  assert.deepEqual([status, verdict.tier], [200, "pro"]);
  assert.deepEqual(service.requests.at(-1).body, { user_id: "user-1", receipt_data: "jws" });
  await assert.rejects(post("forged"), fails("refused", "not_authentic"));
  await assert.rejects(post("jws", { key: "wrong" }), fails("later", "unauthenticated"));
  service.next(POST, (answer) => answer(404, problem(404, "not_found")));
  await assert.rejects(post("jws"), fails("later", "not_found"));
  for (const [said, seconds] of [["7", 7], ["1e9", 86_400]]) {
    service.next(POST, (answer) => answer(503, problem(503, "overloaded"), { "retry-after": said }));
    await assert.rejects(post("jws"), (error) => error.retryAfter === seconds && fails("later", "overloaded")(error));
  }
  service.next(POST, (_, response) => response.end("<html>"));
  await assert.rejects(post("jws"), fails("later", "bad_answer"));
  await assert.rejects(post("jws", { signal: AbortSignal.abort() }), fails("later", "network"));
});

test("each request says which client it is of", async () => {
  const app = client({ keys: undefined });
  await app.refresh();
  await app.purchase("jws");
  await validate({ user_id: "user-1", receipt_data: "jws" }, { baseURL: service.url, key: "good" });
  assert.equal(service.count("GET /.well-known/jwks.json"), 1);
  assert.deepEqual([...new Set(service.requests.map((each) => each.headers["countersign-client"]))], [`javascript/${version}`]);
  assert.equal(version, JSON.parse(readFileSync(new URL("package.json", import.meta.url))).version);
});

test("signing out forgets the token, and nothing is asked afterwards", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  await app.signOut();
  assert.equal(app.state.kind, "unknown");
  assert.equal(storage.items.has(place("token")), false);
  await assert.rejects(app.refresh(), fails("signedOut", "unauthenticated"));
  assert.equal(time.timers.size, 0);
});

// Purchases that meet trouble.

const troubles = {
  "no network": [() => (offline = true), "network"],
  "503": [() => service.away(POST), "ledger_unavailable"],
  "429": [() => service.away(POST, 1, 429), "rate_limited"],
  "a 404 of a proxy": [() => service.next(POST, (answer) => answer(404, { error: "no route" })), "bad_answer"],
};
for (const [name, [begin, code]] of Object.entries(troubles)) {
  test(`a purchase that meets ${name} is kept, and posted at the next start`, async () => {
    begin();
    await assert.rejects(client().purchase("jws-1"), fails("later", code));
    assert.deepEqual(JSON.parse(storage.items.get(place("purchases"))), ["jws-1"]);
    offline = false;
    const app = await restarted();
    await until(() => app.isAllowed("filters"));
    assert.deepEqual([...service.purchases], ["jws-1"]);
    assert.equal(storage.items.has(place("purchases")), false);
  });
}

test("a purchase is posted again after Retry-After, else with backoff, without a call", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  service.away(POST, 1, 429, { "retry-after": "90" });
  service.away(POST, 2);
  await assert.rejects(app.purchase("jws-1"), (error) => error.retryAfter === 90);
  await time.advance(89_000);
  assert.equal(service.count(POST), 1);
  await time.advance(1_000);
  await until(() => service.count(POST) === 2);
  await turns();
  for (let tries = 0; !service.purchases.size && tries < 20; tries += 1) await time.advance(30_000);
  const [first, second, third, fourth] = service.requests.filter((each) => each.what === POST).map((each) => each.at);
  assert.ok(second - first >= 90_000 && third > second && fourth > third);
  await until(() => app.isAllowed("filters"));
});

test("a pause is a day at most, and a refresh that succeeds ends it", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  service.away(TOKEN, 1, 503, { "retry-after": "1e9" });
  await assert.rejects(app.refresh(), (error) => error.retryAfter === 86_400);
  await app.refresh();
  await time.advance(30_000);
  service.away(TOKEN);
  await assert.rejects(app.refresh(), fails("later", "ledger_unavailable"));
  const count = service.count(TOKEN);
  await time.advance(2_000);
  await until(() => service.count(TOKEN) === count + 1);
});

test("a purchase waits for its Retry-After also after a refresh, and no longer than the state is known", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  service.away(POST, 1, 429, { "retry-after": "86400" });
  await assert.rejects(app.purchase("jws-1"), fails("later", "rate_limited"));
  await app.refresh();
  const count = service.count(TOKEN);
  await time.advance(HOUR - 1);
  assert.deepEqual([service.count(TOKEN), service.count(POST)], [count, 1]);
  await time.advance(1);
  await until(() => app.isAllowed("filters"));
  assert.equal(app.state.kind, "known");
});

test("a refusal says its code, and is not posted again", async () => {
  await assert.rejects(client().purchase("theirs"), fails("refused", "owned_by_another_user"));
  await assert.rejects(client().purchase("forged"), fails("refused", "not_authentic"));
  assert.equal(storage.items.has(place("purchases")), false);
  await restarted();
  await turns();
  assert.equal(service.count(POST), 2);
});

test("a purchase that is not in the answer is not done, and is posted again; the others go on", async () => {
  const signed = (id) => `e30.${Buffer.from(JSON.stringify({ transactionId: id })).toString("base64url")}.c2ln`;
  service.absent.add("1");
  const app = client();
  await app.start();
  await assert.rejects(app.purchase(signed("1")), fails("later", "not_found_yet"));
  assert.equal(service.purchases.size, 0);
  service.absent.add("1");
  const { done, kept } = await app.restore([signed("1"), signed("2")]);
  assert.deepEqual([done, kept.map(({ jws }) => jws)], [[signed("2")], [signed("1")]]);
  assert.deepEqual((await app.retry()).done, [signed("1")]);
  assert.equal(storage.items.get(place("purchases")), undefined);
});

test("a kill before the post: the purchase is posted at the next start, and counts once", async () => {
  client({ fetch: () => new Promise(() => {}) }).purchase("jws-1").catch(() => {});
  await until(() => storage.items.has(place("purchases")));
  const app = await restarted();
  // StoreKit hands over again what was not finished, while the kept one is under way.
  await app.purchase("jws-1");
  assert.equal(service.count(POST), 1);
  assert.deepEqual(await app.retry().then(({ done, kept }) => [done, kept]), [[], []]);
});

test("a kill between post and answer: it is posted again, and counts once", async () => {
  service.next(POST, () => {}, true);
  client().purchase("jws-1").catch(() => {});
  await until(() => service.purchases.has("jws-1"));
  const app = await restarted();
  const state = await app.purchase("jws-1");
  assert.equal(state.access.tier, "pro");
  assert.equal(service.purchases.size, 1);
  assert.equal(service.count(POST), 2);
  assert.equal(storage.items.has(place("purchases")), false);
});

test("a kill between answer and finish: StoreKit hands it over again, it counts once and is done once", async () => {
  await client().purchase("jws-1");
  const app = await restarted();
  await until(() => app.state.kind === "known");
  assert.equal(service.count(POST), 1);
  assert.equal((await app.purchase("jws-1")).access.tier, "pro");
  assert.equal(service.purchases.size, 1);
  assert.deepEqual((await app.retry()).done, []);
});

test("another user does not post what the first one has bought", async () => {
  offline = true;
  const first = client();
  await first.purchase("jws-1").catch(() => {});
  await first.signOut();
  offline = false;
  service.user = "user-2";
  await restarted({ user: "user-2" });
  await turns();
  assert.equal(service.count(POST), 0);
  assert.equal(storage.items.has(place("purchases")), true);
});

test("what is stored is of one service: another one, also beside it on the host, has its own", async () => {
  const names = async (baseURL) => {
    await client({ baseURL, fetch: () => Promise.reject(new Error("offline")) }).purchase("jws-1").catch(() => {});
    return [...storage.items.keys()].at(-1);
  };
  assert.equal(await names("https://a.example.com/"), "countersign.purchases.a.example.com.user-1");
  assert.equal(await names("https://a.example.com:8443/staging"), "countersign.purchases.a.example.com_8443_staging.user-1");
  assert.equal(storage.items.size, 2);
  await restarted({ baseURL: `${service.url}/` });
  await turns();
  assert.equal(service.purchases.size, 0);
});

test("storage that fails costs no purchase", async () => {
  const broken = { getItem: () => { throw new Error("no"); }, setItem: () => Promise.reject(new Error("full")), removeItem() {} };
  assert.equal((await client({ storage: broken }).purchase("jws-1")).access.tier, "pro");
});

test("storage that cannot be read once is read again, and no purchase in it is lost", async () => {
  const name = place("purchases");
  storage.items.set(name, '["jws-1"]');
  let isLocked = true;
  const getItem = async (key) => (isLocked ? Promise.reject(new Error("locked")) : storage.getItem(key));
  const app = client({ storage: { ...storage, getItem } });
  offline = true;
  await app.start();
  await assert.rejects(app.purchase("jws-2"), fails("later", "network"));
  assert.equal(storage.items.get(name), '["jws-1"]');
  isLocked = false;
  await assert.rejects(app.refresh(), fails("later", "network"));
  await turns();
  assert.deepEqual(JSON.parse(storage.items.get(name)), ["jws-1", "jws-2"]);
  offline = false;
  assert.deepEqual((await app.retry()).done, ["jws-1", "jws-2"]);
  assert.equal(storage.items.has(name), false);
});

test("a purchase that is posted while storage cannot be read leaves what it has", async () => {
  storage.items.set(place("purchases"), '["jws-1"]');
  let reads = 0;
  const getItem = async (key) => ((reads += 1) === 1 ? Promise.reject(new Error("locked")) : storage.getItem(key));
  const app = client({ storage: { ...storage, getItem } });
  await app.purchase("jws-2");
  assert.equal(storage.items.get(place("purchases")), '["jws-1"]');
  assert.deepEqual((await app.retry()).done, ["jws-1"]);
});

test("while the refresh after a purchase fails, the older state is returned, and the error tells", async () => {
  const app = client();
  await app.refresh();
  service.away(TOKEN);
  const { kind, access } = await app.purchase("jws-1");
  assert.deepEqual([kind, access.tier, app.error.code], ["known", "free", "ledger_unavailable"]);
});

test("a refresh that failed after a purchase, or in the foreground, is tried again within seconds, though the old state is known", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  await time.advance(60_000);
  service.away(TOKEN, 2);
  assert.equal((await app.purchase("jws-1")).access.tier, "free");
  for (const pause of [2_000, 4_000]) {
    await until(() => [...time.timers].some((timer) => timer.milliseconds === pause));
    await time.advance(pause);
  }
  await until(() => app.access.tier === "pro");
  assert.equal(app.error, null);
  service.access = { ...service.access, tier: "free" };
  service.away(TOKEN);
  await time.advance(60_000);
  await assert.rejects(app.refresh(), fails("later", "ledger_unavailable"));
  await until(() => [...time.timers].some((timer) => timer.milliseconds === 2_000));
  await time.advance(2_000);
  await until(() => app.access.tier === "free");
});

// The stories of apps, by the documents that asked for them.

test("001 R7.4, R7.5: a purchase is validated, the state follows, and each failure has its own word", async () => {
  const app = client();
  const state = await app.purchase("jws-1");
  assert.equal(state, app.state);
  assert.equal(state.access.tier, "pro");
  assert.equal(app.isAllowed("filters"), true);
  const { body, headers } = service.requests.find((each) => each.what === POST);
  assert.deepEqual(body, { receipt_data: "jws-1" });
  assert.equal(headers.authorization, "Bearer good");
  await assert.rejects(app.purchase("forged"), fails("refused", "not_authentic"));
  for (const kind of ["cancelled", "pending"]) assert.equal(new CountersignError(kind, kind, "").kind, kind);
});

test("001 R8.3: while the row is queued it is polled every 2 s with If-None-Match, and 10 s at most", async () => {
  service.writes = ["queued"];
  const app = client();
  const begin = time.now;
  let isDone = false;
  const purchase = app.purchase("jws-1").then((state) => ((isDone = true), state));
  for (let second = 0; second < 10 && !isDone; second += 1) {
    await until(() => isDone || [...time.timers].some((timer) => timer.milliseconds === 2_000));
    const polls = service.count(PROFILE);
    await time.advance(2_000, () => until(() => isDone || service.count(PROFILE) > polls));
    await turns(100);
  }
  assert.equal((await purchase).access.tier, "pro");
  const polls = service.requests.filter((each) => each.what === PROFILE);
  assert.deepEqual(polls.map((each) => each.at - begin), [2_000, 4_000, 6_000, 8_000]);
  assert.deepEqual(polls.map((each) => each.headers["if-none-match"]), [undefined, '"queued"', '"queued"', '"queued"']);
  assert.ok(time.now - begin <= 10_000);
});

test("001 R8.3, R8.4: the poll ends when the row is written", async () => {
  service.writes = ["queued", "queued", "committed"];
  const purchase = client().purchase("jws-1");
  for (const polls of [0, 1]) {
    await until(() => [...time.timers].some((timer) => timer.milliseconds === 2_000));
    await time.advance(2_000, () => until(() => service.count(PROFILE) > polls));
  }
  assert.equal((await purchase).access.tier, "pro");
  assert.equal(service.count(PROFILE), 2);
});

test("001 R8.2: a refresh that began before the purchase is not taken for its state", async () => {
  const app = client();
  const before = await sign(key, service.claims());
  let answerLate;
  service.next(TOKEN, (answer) => (answerLate = () => answer(200, { token: before })));
  const refresh = app.refresh();
  await until(() => answerLate);
  const purchase = app.purchase("jws-1");
  await until(() => service.purchases.has("jws-1"));
  answerLate();
  await refresh;
  assert.equal((await purchase).access.tier, "pro");
});

test("001 R9.1, R9.3: settings show tier, status and end, and grace is told", async () => {
  service.access = { ...service.access, tier: "pro", status: "grace_period", until: time.now / 1000 + 86_400 };
  const { access } = await client().refresh();
  assert.deepEqual([access.tier, access.status, access.accessUntil.getTime()], ["pro", "grace_period", time.now + DAY]);
});

test("001 R10.1, R10.2: a reinstalled app restores, with progress, and names what is not the user's", async () => {
  storage.items.clear();
  const seen = [];
  const app = client();
  const result = await app.restore(["jws-1", "theirs", "jws-2", "jws-1"], ({ completed, total }) => seen.push(`${completed}/${total}`));
  assert.deepEqual(seen, ["1/3", "2/3", "3/3"]);
  assert.deepEqual(result.done, ["jws-1", "jws-2"]);
  assert.deepEqual(result.refused.map(({ jws, error }) => [jws, error.code]), [["theirs", "owned_by_another_user"]]);
  assert.equal(result.state.access.tier, "pro");
  const { done } = await app.restore(["jws-3", "jws-4"], () => {
    throw new Error("the app's");
  });
  assert.deepEqual(done, ["jws-3", "jws-4"]);
});

test("001 R10.3, R10.4: each start asks the service, and its word replaces the cache", async () => {
  await client().purchase("jws-1");
  service.access = { ...service.access, tier: "free", until: null, features: { filters: false } };
  const app = await restarted();
  await until(() => app.state.access?.tier === "free");
  assert.equal(app.isAllowed("filters"), false);
});

test("002 launch: the state is there from the cache without a request, then one refresh", async () => {
  await client().refresh();
  service.requests.length = 0;
  let isLate;
  service.next(TOKEN, () => (isLate = true));
  const app = await restarted();
  assert.equal(app.state.kind, "known");
  await until(() => isLate);
  assert.equal(service.requests.length, 1);
});

test("002 purchase: listeners hear of it, and the paywall may go", async () => {
  const app = client();
  await app.refresh();
  const paywall = new Promise((gone) => app.subscribe(() => app.isAllowed("filters") && gone()));
  await app.purchase("jws-1");
  await paywall;
});

test("002 entitlement check: yes, no, and unknown are three answers", async () => {
  const app = client();
  assert.equal(app.isAllowed("filters"), null);
  await app.refresh();
  assert.equal(app.isAllowed("filters"), false);
  await app.purchase("jws-1");
  assert.equal(app.isAllowed("filters"), true);
});

test("002 restore: one that meets trouble is kept, and the others go on", async () => {
  service.away(POST);
  const { done, kept } = await client().restore(["jws-1", "jws-2"]);
  assert.deepEqual([done, kept.map((each) => each.jws)], [["jws-2"], ["jws-1"]]);
  // Without a network the next one is not tried: each would take its whole deadline.
  let tries = 0;
  const result = await client({ fetch: async () => Promise.reject(new Error(`${(tries += 1)}`)) }).restore(["jws-3", "jws-4"]);
  assert.equal(tries, 1);
  assert.deepEqual(result.kept.map((each) => each.error.kind), ["later", "later"]);
});

test("002 a change on another device is heard of within the hour", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  const heard = [];
  app.subscribe((state) => heard.push(`${state.kind} ${state.access?.tier}`));
  service.access = { ...service.access, tier: "pro", features: { filters: true } };
  await time.advance(HOUR);
  await until(() => app.isAllowed("filters"));
  await turns();
  assert.deepEqual(heard.at(-1), "known pro");
});

test("002 offline for seven days: what was known holds, then it is unknown and not free; a year later the network is back", async () => {
  service.access = { ...service.access, tier: "pro", features: { filters: true } };
  await client().refresh();
  offline = true;
  for (const [days, kind] of [[1, "old"], [6, "old"], [7, "unknown"], [365, "unknown"]]) {
    ahead = days * DAY;
    assert.equal((await restarted()).state.kind, kind, `${days}`);
  }
  offline = false;
  ahead = 0;
  time.now += 365 * DAY;
  const app = await restarted();
  assert.equal(app.state.kind, "unknown");
  await until(() => app.isAllowed("filters"));
});

test("003 R4.2, R4.4: access follows a purchase and a restore at once", async () => {
  const app = client();
  await app.purchase("jws-1");
  assert.equal(app.isAllowed("filters"), true);
  assert.equal((await client({ storage: new Storage() }).restore(["jws-1"])).state.access.features.filters, true);
});

test("003 R4.5: a restore that finds nothing says so, without a post", async () => {
  const { done, refused, kept } = await client().restore([]);
  assert.deepEqual([done, refused, kept], [[], [], []]);
  assert.equal(service.count(POST), 0);
});

test("003 R5.3, R5.4: a cancelled subscription has access until its end is reached", async () => {
  service.access = { tier: "pro", status: "cancelled", until: time.now / 1000 + 1800, features: { filters: true } };
  const app = client();
  await app.refresh();
  assert.deepEqual([app.access.status, app.isAllowed("filters")], ["cancelled", true]);
  ahead = 1_800_000;
  assert.equal(app.isAllowed("filters"), null);
});

test("003 R5.5: what ends is asked about when it ends, without a call", async () => {
  service.access = { tier: "pro", status: "active", until: time.now / 1000 + 1800, features: { filters: true } };
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  service.access = { tier: "free", status: "expired", until: null, features: { filters: false } };
  await time.advance(1_800_000);
  await until(() => app.isAllowed("filters") === false);
  assert.equal(app.access.status, "expired");
});

test("003 R7.1, R7.2: while the service is away the last state holds, and it is asked ever less often", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  offline = true;
  await time.advance(2 * HOUR);
  assert.equal(app.state.kind, "old");
  assert.equal(app.error.code, "network");
  assert.ok([...time.timers].every((timer) => timer.milliseconds <= 300_000));
  offline = false;
  await time.advance(300_000);
  await until(() => app.state.kind === "known");
});

test("003 R7.3, R7.4: an interrupted purchase is not lost, and where it is not known the app may say yes", async () => {
  offline = true;
  const app = client();
  await assert.rejects(app.purchase("jws-1"), fails("later", "network"));
  assert.equal(app.isAllowed("filters") ?? true, true);
  offline = false;
  assert.deepEqual((await app.retry()).done, ["jws-1"]);
  assert.equal(app.isAllowed("filters"), true);
});

// Features and trials.

test("consume updates the feature, and says when the limit is reached", async () => {
  const app = client();
  await app.refresh();
  assert.equal((await app.consume("questions", 9)).remaining, 1);
  assert.equal(app.access.features.questions.remaining, 1);
  await assert.rejects(app.consume("questions", 2), fails("refused", "limit_reached"));
  assert.equal(app.isAllowed("questions"), true);
  await app.consume("questions");
  assert.equal(app.isAllowed("questions"), false);
  await assert.rejects(app.consume("questions"), fails("refused", "limit_reached"));
  for (const allowed of [true, false]) {
    const unlimited = { feature: "questions", allowed, more_allowed: allowed, limit: null, remaining: null };
    service.next(USAGE, (answer) => answer(200, unlimited));
    await app.consume("questions");
    assert.equal(app.isAllowed("questions"), allowed);
  }
  // The last of three days in a row.
  service.next(USAGE, (answer) => answer(200, { feature: "questions", allowed: true, more_allowed: true, limit: 3, remaining: 0 }));
  await app.consume("questions");
  assert.equal(app.isAllowed("questions"), true);
  await assert.rejects(app.consume("unheard of"), fails("refused", "not_found"));
});

test("a consumption whose answer was lost is tried again with the same key, and counts once", async () => {
  const app = client();
  await app.refresh();
  service.next(USAGE, (_, response) => response.destroy(), true);
  await assert.rejects(app.consume("questions"), fails("later", "network"));
  await app.consume("questions");
  await Promise.all([app.consume("questions"), app.consume("questions")]);
  const used = service.requests.filter((each) => each.what === USAGE).map((each) => each.headers["idempotency-key"]);
  assert.equal(used[0], used[1]);
  assert.equal(new Set(used).size, 3);
  assert.ok(used.every((each) => /^[!-~]{1,128}$/.test(each)));
  assert.equal(app.access.features.questions.remaining, 7);
});

test("a variant is what the service says, and what the user saw is reported", async () => {
  const app = client();
  assert.equal(await app.variant("headline"), "family");
  assert.equal(await app.variant("unheard of"), null);
  await app.noteExposure("headline", "savings");
  assert.equal(await app.variant("headline"), "savings");
  assert.deepEqual(service.events.map(({ type, properties }) => [type, properties]),
    [["experiment_exposed", { experiment: "headline", variant: "savings" }]]);
  service.away("GET /v1/profiles/me/access");
  await assert.rejects(app.variant("headline"), fails("later", "ledger_unavailable"));
  service.next("POST /v1/events", (answer) => answer(200, {}));
  await assert.rejects(app.noteExposure("headline", "savings"), fails("later", "bad_answer"));
});

test("no error tells a token or a transaction", async () => {
  const app = client({ token: async () => "secret-bearer" });
  const error = await app.purchase("secret-jws").catch((caught) => caught);
  assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)}`, /secret/);
});

// Offerings and plans.

const PLANS = "GET /v1/plans";
const EVENTS = "POST /v1/events";
const monthly = {
  id: "pro.monthly", displayName: "Familie Pro", description: "", price: 4.99, displayPrice: "4,99 €", currencyCode: "EUR",
  period: { count: 1, unit: "month" }, introductoryOffer: null, isEligibleForIntroductoryOffer: null,
};
const selling = (...list) => ({ products: async (ids) => list.filter(({ id }) => ids.includes(id)) });

test("R7 an offering joins the catalog with the store's price, period and offer", async () => {
  const { current, all, variant } = await client({ store: selling(monthly) }).offerings();
  assert.deepEqual([current.name, current.metadata, all.length, variant], ["default", { best: "$rc_annual" }, 2, null]);
  const [first, second] = current.packages;
  assert.deepEqual([first.name, first.product, first.plan.name, first.kind], ["$rc_monthly", monthly, "Family Pro", "subscription"]);
  // The store does not sell it: the catalog's period stands in.
  assert.deepEqual([second.product, second.period], [null, { count: 1, unit: "year" }]);
});

test("the catalog is asked once in five minutes, and an unchanged one is not sent twice", async () => {
  const app = client();
  await app.plans();
  ahead = 299_999;
  await app.plans();
  assert.equal(service.count(PLANS), 1);
  ahead = 300_000;
  assert.deepEqual(await app.plans(), service.plans);
  const tags = service.requests.filter((each) => each.what === PLANS).map((each) => "if-none-match" in each.headers);
  assert.deepEqual(tags, [false, true]);
});

test("a new product is on the paywall without a release of the app", async () => {
  const store = selling(monthly, { ...monthly, id: "pro.life", displayPrice: "99,00 €", period: null });
  const app = client({ store });
  await app.offerings();
  service.plans.plans[1].products.push({ product_id: "pro.life", kind: "lifetime", period: null, prices: {} });
  service.plans.offerings[0].packages.push({ name: "$rc_lifetime", product_id: "pro.life" });
  ahead = 300_000;
  const life = (await app.offerings()).current.packages[2];
  assert.deepEqual([life.product.displayPrice, life.kind, life.period], ["99,00 €", "lifetime", null]);
});

test("offline the paywall is there after a restart of the app", async () => {
  await client().offerings({ experiment: "headline" });
  offline = true;
  ahead = DAY;
  const { all, current, variant } = await (await restarted()).offerings({ experiment: "headline" });
  assert.deepEqual([all.length, current.name, variant], [2, "family", "family"]);
  storage.items.clear();
  await assert.rejects((await restarted()).offerings(), fails("later", "network"));
});

test("an experiment decides the current offering where its variant names one", async () => {
  const app = client();
  assert.equal((await app.offerings({ experiment: "headline" })).current.name, "family");
  service.variants.headline = "savings";
  const { current, variant } = await app.offerings({ experiment: "headline" });
  assert.deepEqual([current.name, variant], ["default", "savings"]);
  assert.equal((await app.offerings({ experiment: "unheard of" })).variant, null);
});

test("a store that fails leaves its prices out", async () => {
  for (const products of [() => { throw Error("gone"); }, async () => { throw Error("gone"); }, async () => null]) {
    assert.equal((await client({ store: { products } }).offerings()).current.packages[0].product, null);
  }
});

test("the store is asked for each paywall, and what it said last counts where it fails", async () => {
  const answers = [[{ ...monthly, isEligibleForIntroductoryOffer: true }], [monthly], null, []];
  const app = client({ store: { products: async () => answers.shift() ?? Promise.reject(Error("gone")) } });
  for (const expected of [true, null, null, undefined]) {
    assert.equal((await app.offerings()).current.packages[0].product?.isEligibleForIntroductoryOffer, expected);
  }
});

test("expo-iap's products and purchases are the store's", async () => {
  const subscriptionInfoIOS = {
    subscriptionGroupId: "group", subscriptionPeriod: { unit: "month", value: 1 },
    introductoryOffer: { paymentMode: "free-trial", period: { unit: "week", value: 1 }, periodCount: 1, price: 0, displayPrice: "0,00 €" },
  };
  const said = { id: "pro.monthly", title: "Pro", displayName: "Familie Pro", description: "", price: 4.99, displayPrice: "4,99 €", currency: "EUR" };
  const store = expoStore({
    fetchProducts: async ({ skus, type }) => (assert.equal(type, "all"), [{ ...said, subscriptionInfoIOS }, { ...said, id: "life" }].filter(({ id }) => skus.includes(id))),
    getAvailablePurchases: async () => [{ purchaseToken: "jws-1" }, { purchaseToken: null }, { purchaseToken: "jws-2", purchaseState: "pending" }],
    isEligibleForIntroOfferIOS: async (group) => group === "group",
  });
  const [first, life] = await store.products(["pro.monthly", "life"]);
  const introductoryOffer = { mode: "freeTrial", price: 0, displayPrice: "0,00 €", period: { count: 1, unit: "week" }, count: 1 };
  assert.deepEqual(first, { ...monthly, introductoryOffer, isEligibleForIntroductoryOffer: true });
  assert.deepEqual([life.period, life.introductoryOffer, life.isEligibleForIntroductoryOffer], [null, null, null]);
  assert.deepEqual(await store.currentEntitlements(), ["jws-1"]);
});

// The state in words.

const later = (days) => new Date(time.now + days * DAY).toISOString();
function say(status, reason, will_renew, days, product_id = "pro.monthly") {
  const end = days === null ? null : later(days);
  service.writes = [`${status}${days}${reason}`]; // which is the entity tag
  service.profile = { tier: status === "expired" ? "free" : "pro", status, reason, will_renew, product_id, is_trial: false };
  Object.assign(service.profile, { expires_at: end, access_until: status === "expired" ? null : end, profile_write: "none" });
}

test("R9 a subscription that renews has a plan, names and the next billing date", async () => {
  say("active", "renewing", true, 30);
  const profile = await client({ store: selling(monthly) }).profile();
  assert.deepEqual([profile.tier, profile.tierName, profile.productName, profile.reason], ["pro", "Family Pro", "Familie Pro", "renewing"]);
  assert.deepEqual([profile.period, profile.nextBillingAt.toISOString()], [{ count: 1, unit: "month" }, later(30)]);
  assert.deepEqual([profile.endsAt, profile.notice, profile.suggestion, profile.isOld], [null, null, null, false]);
});

test("R9 the expiry banner comes three days before the end, and offers to resubscribe", async () => {
  say("cancelled", "renewal_off", false, 3);
  const app = client();
  const at = new Date(time.now + 3 * DAY);
  ahead = -1;
  let profile = await app.profile();
  assert.deepEqual([profile.endsAt, profile.notice, profile.suggestion, profile.nextBillingAt], [at, null, "resubscribe", null]);
  ahead = 0;
  assert.deepEqual((await app.profile()).notice, { kind: "endsSoon", at });
  ahead = 3 * DAY;
  assert.deepEqual((await app.profile()).notice, { kind: "ended", at });
});

test("R9 a commitment that is not to be renewed is billed by the month until its end", async () => {
  say("active", "renewal_off", true, 10);
  service.profile.commitment_expires_at = later(100);
  const profile = await client().profile();
  assert.deepEqual([profile.commitmentExpiresAt.toISOString(), profile.nextBillingAt.toISOString()], [later(100), later(10)]);
  assert.deepEqual([profile.endsAt, profile.notice, profile.suggestion], [null, null, null]);
});

test("R9 in grace the payment is to be mended, and after the end there is a way back", async () => {
  const app = client();
  say("grace_period", "billing_grace", true, 10);
  let profile = await app.profile();
  assert.deepEqual([profile.notice, profile.suggestion, profile.nextBillingAt],
    [{ kind: "paymentFailed", at: new Date(later(10)) }, "updatePayment", null]);
  say("expired", "voluntary", false, -1);
  profile = await app.profile();
  assert.deepEqual([profile.notice.kind, profile.suggestion, profile.tierName], ["ended", "resubscribe", "Discovery"]);
  say("expired", "no_purchases", null, null, null);
  profile = await app.profile();
  assert.deepEqual([profile.notice, profile.suggestion, profile.endsAt, profile.productID], [null, "subscribe", null, null]);
});

test("a late renewal makes no banner, access for life has no date, and a trial ends", async () => {
  const app = client();
  say("active", "renewal_due", true, -0.01);
  let profile = await app.profile();
  assert.deepEqual([profile.notice, profile.suggestion, profile.nextBillingAt, profile.endsAt], [null, null, null, null]);
  say("active", "lifetime", false, null, "pro.life");
  profile = await app.profile();
  assert.deepEqual([profile.notice, profile.suggestion, profile.endsAt], [null, null, null]);
  say("active", "trial", false, 2, null);
  profile = await app.profile();
  assert.deepEqual([profile.notice.kind, profile.suggestion], ["endsSoon", "subscribe"]);
});

test("offline the settings page has the last answer, and says so, until the user signs out", async () => {
  say("active", "renewing", true, 30);
  await client().profile();
  offline = true;
  const app = await restarted();
  const { isOld, tier } = await app.profile();
  assert.deepEqual([isOld, tier], [true, "pro"]);
  await app.signOut();
  await assert.rejects(client().profile(), fails("later", "network"));
});

// The store's entitlements, and consent.

const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const jwsOf = (claims) => `e30.${part(claims)}.c2ln`;

test("R10 at launch an entitlement that the tier does not show is posted, once", async () => {
  const jws = jwsOf({ productId: "pro.monthly", transactionId: "1" });
  const app = client({ store: { currentEntitlements: async () => [jws] } });
  await app.start();
  await until(() => app.access?.tier === "pro");
  await app.refresh();
  await turns();
  assert.equal(service.count(POST), 1);
});

test("R10 a store that is away at launch is asked again", async () => {
  let asked = 0;
  const currentEntitlements = async () => (asked++ ? [jwsOf({ productId: "pro.monthly", transactionId: "1" })] : Promise.reject(Error("no connection")));
  const app = client({ store: { currentEntitlements } });
  await app.start();
  await until(() => asked === 1);
  await turns();
  await app.refresh();
  await until(() => app.access?.tier === "pro");
  assert.equal(asked, 2);
});

test("R10 at launch nothing is posted where tier and store agree", async () => {
  service.access.tier = "pro";
  const app = client({ store: { currentEntitlements: async () => [jwsOf({ productId: "pro.monthly" })] } });
  await app.start();
  await until(() => service.count(PLANS) === 1);
  await turns();
  assert.equal(service.count(POST), 0);
});

test("R10 without the catalog only a user without access is compared", async () => {
  for (const [status, posts] of [["active", 0], ["expired", 1]]) {
    service.away(PLANS);
    service.access.status = status;
    const app = client({ user: "user-1", storage: new Storage(), store: { currentEntitlements: async () => [jwsOf({ productId: "pro.monthly" })] } });
    await app.start();
    await until(() => service.count(PLANS) > 0 && service.count(POST) >= posts);
    await turns();
    assert.equal(service.count(POST), posts);
    service.requests = [];
  }
});

test("only a transaction that the answer has is to be finished", async () => {
  const app = client();
  const jws = jwsOf({ transactionId: "7" });
  for (const transaction_found of [false, null, undefined]) {
    service.next(POST, (answer) => answer(200, { tier: "pro", profile_write: "none", transaction_found }));
    await assert.rejects(app.purchase(jws), fails("later", "not_found_yet"));
    assert.equal(app.waitingCount, 1);
  }
  await app.purchase(jws);
  assert.equal(app.waitingCount, 0);
});

const [anna, ben] = ["6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11", "11111111-2222-4333-8444-555555555555"];

test("a purchase of another user of the device is the service's to refuse, and stays theirs", async () => {
  service.user = anna;
  const theirs = jwsOf({ transactionId: "1", productId: "pro.monthly", appAccountToken: ben });
  const own = jwsOf({ transactionId: "2", appAccountToken: anna.toUpperCase() });
  for (service.isAppleAway of [false, true]) {
    const app = client({ user: anna, storage, store: { currentEntitlements: async () => [theirs] } });
    await app.start();
    await until(() => app.state.kind === "known");
    const isRefused = !service.isAppleAway;
    await assert.rejects(app.purchase(theirs), isRefused ? fails("refused", "owned_by_another_user") : fails("later", "not_yours_yet"));
    const { done, refused, kept } = await app.restore([theirs, own]);
    assert.deepEqual([done, (isRefused ? refused : kept).map(({ jws }) => jws)], [[own], [theirs]]);
    assert.equal(refused.length + kept.length, 1);
    assert.deepEqual([[...service.purchases], app.waitingCount], [[own], 0]);
    app.close();
  }
});

test("a purchase that the service may have kept for this user is not refused while Apple is away, and counts once it is found", async () => {
  service.user = anna;
  service.isAppleAway = true;
  const former = jwsOf({ transactionId: "1", productId: "pro.monthly", appAccountToken: ben });
  const app = client({ user: anna });
  await assert.rejects(app.purchase(former), fails("later", "not_yours_yet"));
  assert.equal(app.waitingCount, 0);
  service.moved.add(former);
  assert.equal((await app.purchase(former)).access.tier, "pro");
});

test("where everything is refused, the state is asked for: it may have been this user's until now", async () => {
  const app = client();
  await app.purchase("jws-1");
  service.access = { ...service.access, tier: "free", features: { filters: false } };
  const { state, refused } = await app.restore(["theirs-1"]);
  assert.deepEqual([state.access.tier, refused.length], ["free", 1]);
});

test("a purchase that waits with its user is not lost while another user's app posts it", async () => {
  const jws = jwsOf({ transactionId: "1", appAccountToken: ben });
  offline = true;
  await client({ user: ben }).purchase(jws).catch(() => {});
  offline = false;
  service.user = anna;
  await assert.rejects(client({ user: anna }).purchase(jws), fails("refused", "owned_by_another_user"));
  service.user = ben;
  assert.deepEqual((await client({ user: ben }).retry()).done, [jws]);
});

test("a purchase that support has moved to this user is posted and done, and so are its renewals", async () => {
  service.user = anna;
  const [first, second] = ["1", "2"].map((transactionId) => jwsOf({ transactionId, productId: "pro.monthly", appAccountToken: ben }));
  service.moved = new Set([first, second]);
  const app = client({ user: anna, store: { currentEntitlements: async () => [first] } });
  await app.start();
  await until(() => app.access?.tier === "pro");
  assert.equal((await app.purchase(second)).access.tier, "pro");
  assert.deepEqual([...service.purchases], [first, second]);
});

// The app's own events.

test("an event is delivered within seconds, with its time and properties, once", async () => {
  const app = client();
  await app.start();
  await until(() => app.state.kind === "known");
  const at = new Date(time.now).toISOString();
  await app.track(Event.paywallViewed, { source: "settings", seconds: 3 });
  assert.equal(service.count(EVENTS), 0);
  await time.advance(10_000);
  assert.deepEqual(service.events.map((each) => [each.type, each.at, each.properties]), [["paywall_viewed", at, { source: "settings", seconds: 3 }]]);
  assert.equal(app.diagnose().waitingEvents, 0);
});

test("the fourteen names of a paywall are the service's words", () => {
  assert.deepEqual(Object.values(Event), [
    "paywall_viewed", "paywall_dismissed", "plan_selected", "purchase_initiated", "purchase_completed", "purchase_failed",
    "purchase_cancelled", "trial_started", "restore_initiated", "restore_completed", "upgrade_prompt_shown",
    "upgrade_prompt_accepted", "upgrade_prompt_dismissed", "limit_reached",
  ]);
  assert.equal(Event.upgradePromptDismissed, "upgrade_prompt_dismissed");
});

test("killed after an event, or before the answer to it: it counts once", async () => {
  await client().track("opened");
  const next = await restarted();
  await until(() => service.events.length === 1);
  await next.track("closed");
  service.next(EVENTS, (answer, response) => response.destroy(), true);
  await assert.rejects(next.flush(), fails("later", "network"));
  await (await restarted()).flush();
  assert.deepEqual(service.events.map(({ type }) => type), ["opened", "closed"]);
  assert.equal(storage.items.has(place("events")), false);
});

test("events go in batches of fifty, in their order, and of more than a thousand the oldest are dropped", async () => {
  const app = client();
  for (let number = 0; number < 1003; number += 1) await app.track("tapped", { number });
  assert.equal(app.diagnose().droppedEvents, 3);
  await app.flush();
  assert.equal(service.count(EVENTS), 20);
  assert.deepEqual(service.events.map((each) => each.properties.number), Array.from({ length: 1000 }, (_, index) => index + 3));
  assert.equal((await restarted()).diagnose().droppedEvents, 3);
});

test("an event that the service refuses holds up no other, and a refusal that is not about them keeps them", async () => {
  const app = client();
  for (const name of ["one", "refused_event", "two"]) await app.track(name);
  await app.track("no.dots");
  await app.track("large", { text: "x".repeat(9000) });
  await app.flush();
  assert.deepEqual(service.events.map(({ type }) => type), ["one", "two"]);
  assert.equal(app.diagnose().droppedEvents, 3);
  await app.track("three");
  service.next(EVENTS, (answer) => answer(403, problem(403, "forbidden")));
  await assert.rejects(app.flush(), fails("refused", "forbidden"));
  assert.equal(app.diagnose().waitingEvents, 1);
});

test("while the service is away events wait, longer each time, and are another user's never", async () => {
  const app = client();
  await app.start();
  service.away(EVENTS, 2);
  await app.track("opened");
  await time.advance(10_000);
  await time.advance(19_999);
  assert.equal(service.count(EVENTS), 1);
  await time.advance(1);
  assert.equal(service.count(EVENTS), 2);
  await time.advance(40_000);
  assert.equal(service.events.length, 1);
  offline = true;
  await app.track("closed");
  app.signOut();
  const other = client({ user: "user-2" });
  await other.start();
  assert.equal(other.diagnose().waitingEvents, 0);
});

test("the time of an event is the service's, and very old ones are dropped", async () => {
  ahead = 2 * HOUR;
  const app = client();
  await app.track("opened");
  await app.refresh();
  await app.flush();
  assert.equal(service.events[0].at, new Date(time.now).toISOString());
  await app.track("opened");
  ahead += 90 * DAY;
  await app.flush();
  assert.deepEqual([service.events.length, app.diagnose().droppedEvents], [1, 1]);
});

// Debugging.

test("a diagnosis has versions, answers, queues, clock and keys, and no secret", async () => {
  const log = [];
  ahead = -90_000;
  service.bearers.add("secret-bearer");
  const app = client({ token: async () => "secret-bearer", log: (entry) => log.push(entry) });
  await app.refresh();
  await app.profile();
  service.away(POST);
  await app.purchase("secret-jws").catch(() => {});
  await app.track("opened");
  const said = app.diagnose();
  assert.deepEqual([said.client, said.state, said.waitingPurchases, said.waitingEvents, said.clockDifference, said.keyIDs, said.arePinned],
    [`javascript/${version}`, "known", 1, 1, 90, ["key-1"], true]);
  assert.deepEqual(said.answers.map((each) => [each.request, each.status, each.code, each.requestID].join()), [
    `${TOKEN},200,,`, `${PROFILE},200,,request-7`, `${PLANS},200,,`, `${POST},503,ledger_unavailable,1`,
  ]);
  assert.doesNotMatch(JSON.stringify([said, log]), /secret|eyJ/);
  assert.equal(log.at(-1).status, 503);
  offline = true;
  for (let call = 0; call < 12; call += 1) await app.refresh().catch(() => {});
  assert.deepEqual([app.diagnose().answers.length, app.diagnose().answers[9].status], [10, 0]);
});

for (const name of ["free", "pro", "trial", "appTrial", "grace", "ending", "expired", "unknown"]) {
  test(`the preview ${name} has its state, and sells, without a service`, async () => {
    const app = preview(name, { features: { filters: true } });
    await turns();
    assert.equal(app.state.kind, name === "unknown" ? "unknown" : "known");
    if (name !== "unknown") {
      const { tier, suggestion, nextBillingAt } = await app.profile();
      assert.equal(tier, ["free", "expired"].includes(name) ? "free" : "pro");
      assert.equal(suggestion, { free: "subscribe", appTrial: "subscribe", grace: "updatePayment", ending: "resubscribe", expired: "resubscribe" }[name] ?? null);
      assert.equal(nextBillingAt !== null, ["pro", "trial"].includes(name));
      assert.equal(app.isAllowed("filters"), true);
      assert.equal((await app.offerings()).current.packages[0].product.displayPrice, "$4.99");
      assert.equal((await app.purchase("any")).access.tier, "pro");
      const { allowed, more_allowed } = await app.consume("questions");
      assert.ok(allowed && more_allowed);
    }
    app.close();
  });
}

test("a preview's trial begins, counts its sessions and ends", async () => {
  const app = preview("free");
  assert.equal(await app.trial(), null);
  assert.equal((await app.startTrial()).sessions_remaining, 5);
  assert.equal(app.state.access.tier, "pro");
  for (const left of [4, 3, 2, 1, 0]) assert.equal((await app.useTrialSession()).sessions_remaining, left);
  assert.equal(app.state.access.tier, "free");
  assert.equal((await app.trial()).state, "used_up");
  await assert.rejects(app.useTrialSession(), { code: "trial_over" });
  app.close();
});

// An app pays for each byte at each start of a web page. What is added takes its bytes from what is there, or raises the limit
// here, in docs/javascript.md, and with its reason in the changelog.
test("countersign.js has 22 KiB at most without its comments and indents, which a minifier makes 14.1", () => {
  const text = readFileSync(new URL("countersign.js", import.meta.url), "utf8");
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line && !/^(\/\/|\/\*\*)/.test(line));
  assert.ok(lines.join("\n").length <= 22_528, `${lines.join("\n").length}`);
});

test("the pages of reference are what the types say: node clients/javascript/reference.mjs writes them", () => {
  for (const { at, text } of reference) assert.equal(readFileSync(at, "utf8"), text);
});

const { COUNTERSIGN_URL, COUNTERSIGN_TOKEN, COUNTERSIGN_USER, COUNTERSIGN_JWS, COUNTERSIGN_PUBLIC_KEY } = process.env;
const isThere = COUNTERSIGN_URL && COUNTERSIGN_TOKEN && COUNTERSIGN_USER && COUNTERSIGN_JWS;
const reason = "COUNTERSIGN_URL, COUNTERSIGN_TOKEN, COUNTERSIGN_USER and COUNTERSIGN_JWS name a running service, and are not set.";
test("against a running service", { skip: isThere ? false : reason }, async () => {
  const keychain = new Storage();
  const app = createClient({
    baseURL: COUNTERSIGN_URL, token: async () => COUNTERSIGN_TOKEN, user: COUNTERSIGN_USER, storage: new Storage(), trials: trials({ deviceStorage: keychain }),
  });
  if (COUNTERSIGN_PUBLIC_KEY) {
    const device = () => createTrials({ baseURL: COUNTERSIGN_URL, publicKey: COUNTERSIGN_PUBLIC_KEY, storage: keychain });
    const begun = await device().start();
    await device().useSession();
    for (const key of keychain.items.keys()) if (key.startsWith("countersign.device.trial.")) keychain.items.delete(key);
    assert.equal((await device().start()).started_at, begun.started_at);
    assert.equal((await device().useSession()).sessions_used, 2);
    assert.equal((await app.startTrial()).started_at, begun.started_at);
    assert.equal((await app.useTrialSession()).sessions_used, 3);
    assert.equal(app.state.access.tier, begun.tier);
    assert.equal((await device().trial()).sessions_used, 3);
  }
  await app.start();
  assert.equal((await app.refresh()).kind, "known");
  const state = await app.purchase(COUNTERSIGN_JWS);
  assert.equal(state.kind, "known");
  assert.equal(state.access.verified, true);
  for (const name of Object.keys(state.access.features)) assert.equal(typeof app.isAllowed(name), "boolean");
  assert.deepEqual((await app.restore([COUNTERSIGN_JWS])).done, [COUNTERSIGN_JWS]);
  const profile = await app.profile();
  assert.deepEqual([profile.tier, profile.isOld, profile.answer.user_id], [state.access.tier, false, COUNTERSIGN_USER]);
  assert.ok((await app.plans()).plans.some(({ tier, name }) => tier === profile.tier && name === profile.tierName));
  for (const { packages } of (await app.offerings()).all) for (const each of packages) assert.ok(each.plan);
  await app.track(Event.paywallViewed, { source: "test" });
  await app.flush();
  assert.deepEqual([app.diagnose().waitingEvents, app.diagnose().droppedEvents], [0, 0]);
  assert.ok(app.diagnose().answers.every(({ status, requestID }) => status < 400 && requestID));
  app.close();
});
