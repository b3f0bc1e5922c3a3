// What the tests stand on: a clock that is moved by hand, and a small service over node:http with real ES256 keys.

import { createServer } from "node:http";

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
const { subtle } = globalThis.crypto;
const base64url = (data) => Buffer.from(data).toString("base64url");

/** Lets everything that is ready run: a few turns of the event loop. */
export async function turns(count = 30) {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate);
}

/** Runs the event loop until something holds. */
export async function until(holds) {
  const end = performance.now() + 60_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`never held: ${holds}`);
    await new Promise(setImmediate);
  }
}

export class Time {
  now = Date.parse("2026-01-15T12:00:00Z");
  timers = new Set();
  settled = () => turns();

  wait = (milliseconds, signal) =>
    new Promise((resolve) => {
      const timer = { at: this.now + milliseconds, milliseconds, resolve };
      this.timers.add(timer);
      signal?.addEventListener("abort", () => {
        this.timers.delete(timer);
        resolve();
      });
    });

  /** Moves on, timer by timer; each is followed by whatever it causes. */
  async advance(milliseconds, settled = this.settled) {
    const end = this.now + milliseconds;
    for (;;) {
      const next = [...this.timers].sort((one, other) => one.at - other.at)[0];
      if (!next || next.at > end) break;
      this.timers.delete(next);
      this.now = Math.max(this.now, next.at);
      next.resolve();
      await settled();
    }
    this.now = end;
    await settled();
  }
}

export async function newKey(kid) {
  const pair = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
  const { kty, crv, x, y } = await subtle.exportKey("jwk", pair.publicKey);
  return { kid, pair, jwk: { kty, crv, x, y, kid, alg: "ES256", use: "sig" } };
}

export async function sign(key, claims, header = {}) {
  const head = base64url(JSON.stringify({ alg: "ES256", kid: key.kid, typ: "access+jwt", ...header }));
  const data = `${head}.${base64url(JSON.stringify(claims))}`;
  const signature = await subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key.pair.privateKey, Buffer.from(data));
  return `${data}.${base64url(signature)}`;
}

export class Service {
  requests = [];
  purchases = new Set(); // each transaction counts once
  absent = new Set(); // IDs that the next answer lacks
  moved = new Set(); // transactions that support has moved to this user
  isAppleAway = false; // what was bought for another user then waits
  consumed = new Map(); // answers by Idempotency-Key
  script = []; // what the next requests are answered: functions of (request, response), or null for the usual
  access = { tier: "free", status: "active", until: null, features: { filters: false, questions: { allowed: true, limit: 10, remaining: 10 } } };
  bearers = new Set(["good"]);
  held = null; // of a state that is held: when the hold ends
  events = []; // each once by its ID
  trials = []; // each with its owner, and its sessions by their keys
  trialSessions = 30;
  profile = {}; // members of the verdict
  plans = {
    plans: [
      { tier: "free", name: "Discovery", description: null, features: {}, products: [] },
      {
        tier: "pro", name: "Family Pro", description: null, features: {},
        products: [
          { product_id: "pro.monthly", kind: "subscription", period: "P1M", prices: { USD: "4.99" } },
          { product_id: "pro.yearly", kind: "subscription", period: "P1Y", prices: {} },
        ],
      },
    ],
    offerings: [
      {
        name: "default", metadata: { best: "$rc_annual" },
        packages: [{ name: "$rc_monthly", product_id: "pro.monthly" }, { name: "$rc_annual", product_id: "pro.yearly" }],
      },
      { name: "family", metadata: {}, packages: [{ name: "$rc_annual", product_id: "pro.yearly" }] },
    ],
    current_offering: "default",
  };
  variants = { headline: "family" };
  writes = ["committed"]; // profile_write of the post and of each poll; the last one stays
  user = "user-1";

  constructor(time, key) {
    this.time = time;
    this.key = key;
    this.keys = [key.jwk];
  }

  async open() {
    this.server = createServer((request, response) => this.handle(request, response).catch(() => response.destroy()));
    await new Promise((listening) => this.server.listen(0, "127.0.0.1", listening));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }

  count(what) {
    return this.requests.filter((each) => each.what === what).length;
  }

  claims() {
    const iat = Math.floor(this.time.now / 1000);
    const { tier, status, until, features } = this.access;
    const end = this.held ?? until ?? Infinity;
    return {
      sub: this.user, iat, exp: Math.min(iat + 3600, end), offline_until: this.held ?? Math.min(iat + 7 * 86_400, end),
      access_until: until, tier, status, environment: "production", features,
    };
  }

  async handle(request, response) {
    let text = "";
    for await (const part of request) text += part;
    const body = text ? JSON.parse(text) : null;
    const what = `${request.method} ${request.url}`;
    const entry = { what, headers: request.headers, body, at: this.time.now };
    this.requests.push(entry);
    const answer = (status, value, headers = {}) => {
      const type = status < 400 ? "application/json" : "application/problem+json";
      response.writeHead(status, { "content-type": type, ...headers }).end(value && JSON.stringify(value));
    };
    const index = this.script.findIndex((each) => each.what === what);
    const scripted = index < 0 ? null : this.script.splice(index, 1)[0];
    if (scripted && !scripted.after) return scripted.run(answer, response);
    if (what === "GET /.well-known/jwks.json") return answer(200, { keys: this.keys });
    const bearer = request.headers.authorization?.slice(7);
    if (/trials|devices/.test(what) && (bearer === "appl_public" || this.bearers.has(bearer))) {
      const done = this.trial(what, body, request.headers["idempotency-key"], bearer === "appl_public" ? null : this.user);
      return scripted ? scripted.run(answer, response) : answer(...done);
    }
    if (!this.bearers.has(bearer)) return answer(401, problem(401, "unauthenticated"));
    const done = await this.usual(what, body, request);
    if (scripted) return scripted.run(answer, response);
    answer(...done);
  }

  /** Of a transaction that Apple signed, the user for whom the app bought it. */
  buyer(jws) {
    try {
      return JSON.parse(Buffer.from(jws.split(".")[1], "base64url")).appAccountToken?.toLowerCase();
    } catch {}
  }

  async usual(what, body, request) {
    const write = () => (this.writes.length > 1 ? this.writes.shift() : this.writes[0]);
    if (what === "GET /v1/profiles/me/token") {
      const claims = this.claims();
      return [200, { token: await sign(this.key, claims), expires_at: new Date(claims.exp * 1000).toISOString() }];
    }
    if (what === "POST /v1/validations") {
      if (body.receipt_data.startsWith("forged")) return [422, problem(422, "not_authentic")];
      if (body.receipt_data.startsWith("theirs")) return [409, problem(409, "owned_by_another_user")];
      const buyer = this.buyer(body.receipt_data);
      if (buyer && buyer !== this.user && !this.moved.has(body.receipt_data)) {
        if (!this.isAppleAway) return [409, problem(409, "owned_by_another_user")];
        return [202, { tier: this.access.tier, profile_write: write(), transaction_found: false }];
      }
      if (this.absent.delete(body.transaction_id)) {
        return [200, { tier: this.access.tier, profile_write: write(), transaction_found: false }];
      }
      this.purchases.add(body.receipt_data);
      const until = Math.floor(this.time.now / 1000) + 30 * 86_400;
      this.access = { ...this.access, tier: "pro", until, features: { ...this.access.features, filters: true } };
      return [200, { tier: "pro", profile_write: write(), transaction_found: body.transaction_id ? true : null }];
    }
    if (what === "GET /v1/profiles/me") {
      const state = write();
      const etag = `"${state}"`;
      if (request.headers["if-none-match"] === etag) return [304, null, { etag }];
      const headers = { etag, "x-request-id": "request-7" };
      return [200, { tier: this.access.tier, status: this.access.status, profile_write: state, ...this.profile }, headers];
    }
    if (what === "POST /v1/profiles/me/usage/questions") {
      const key = request.headers["idempotency-key"];
      if (this.consumed.has(key)) return this.consumed.get(key);
      const feature = this.access.features.questions;
      const members = { feature: "questions", tier: this.access.tier, limit: feature.limit };
      if (feature.remaining < body.amount) {
        const more_allowed = feature.remaining > 0;
        return [403, { ...problem(403, "limit_reached"), ...members, allowed: false, more_allowed, remaining: feature.remaining }];
      }
      feature.remaining -= body.amount;
      const { remaining } = feature;
      const answer = [200, { ...members, allowed: true, more_allowed: remaining > 0, remaining }];
      this.consumed.set(key, answer);
      return answer;
    }
    if (what === "GET /v1/profiles/me/access") return [200, { tier: this.access.tier, experiments: this.variants }];
    if (what === "GET /v1/profiles/me/offers") {
      return [200, { promotional: [{ product_id: "pro.monthly", offer_id: "winter" }], introductory: [], win_back: [] }];
    }
    if (what === "POST /v1/offers/promotional") {
      if (body.offer_id !== "winter") return [409, problem(409, "offer_not_for_user")];
      return [200, { ...body, jws: `signed.for.${body.product_id}`, signature: {} }];
    }
    if (what === "POST /v1/offers/introductory") return [200, { ...body, allowed: true, jws: `intro.for.${body.transaction_id}` }];
    if (what === "GET /v1/plans") {
      const etag = `"${JSON.stringify(this.plans).length}"`;
      return request.headers["if-none-match"] === etag ? [304, null, { etag }] : [200, this.plans, { etag }];
    }
    if (what === "POST /v1/events") {
      if (body.events.length > 50 || body.events.some(({ type }) => type === "refused_event")) return [400, problem(400, "malformed_request")];
      for (const event of body.events) {
        if (this.events.some(({ id }) => id === event.id)) continue;
        this.events.push(event);
        const { type, properties } = event;
        if (type === "experiment_exposed") this.variants[properties.experiment] = properties.variant;
      }
      return [200, { recorded: body.events.length, unknown_variants: 0 }];
    }
    return [404, problem(404, "not_found")];
  }

  // Without a user the device is the user; a sign-in moves its trial, and afterwards the device means its new owner.
  trial(what, body, key, named) {
    const isStart = what === "POST /v1/trials";
    const device = (isStart ? body.device_id : what.split("/")[3]).toLowerCase();
    const user = named ?? `$device:${device}`;
    let trial = this.trials.find(({ owner }) => owner === user);
    if (!trial && (isStart || !named)) trial = this.trials.find((each) => each.device === device);
    const isNew = isStart && !trial;
    if (isNew) this.trials.push((trial = { owner: user, device, begun: this.time.now, total: this.trialSessions, sessions: new Set() }));
    if (!trial) return [404, problem(404, "not_found")];
    if (isStart && trial.owner.startsWith("$device:")) trial.owner = user;
    const end = trial.begun + 7 * DAY;
    const isRunning = () => trial.sessions.size < trial.total && this.time.now < end;
    if (what.endsWith("/sessions") && !trial.sessions.has(key)) {
      if (!isRunning()) return [403, problem(403, "trial_over")];
      trial.sessions.add(key);
    }
    this.access = { ...this.access, tier: isRunning() ? "pro" : "free", features: { ...this.access.features, filters: isRunning() } };
    const said = {
      trial: "week", tier: "pro", user_id: user, device_id: device, started_at: new Date(trial.begun).toISOString(),
      expires_at: new Date(end).toISOString(), sessions_total: trial.total, sessions_used: trial.sessions.size,
      sessions_remaining: trial.total - trial.sessions.size,
      state: trial.sessions.size >= trial.total ? "used_up" : isRunning() ? "running" : "over",
    };
    return what.startsWith("PUT") ? [200, { device_id: device, trial: said }] : [isNew ? 201 : 200, said];
  }

  /** The next such request is answered so; with `after` when it has been carried out. */
  next(what, run, after = false) {
    this.script.push({ what, run, after });
  }

  away(what, times = 1, status = 503, headers = {}) {
    const code = status === 429 ? "rate_limited" : "ledger_unavailable";
    for (let time = 0; time < times; time += 1) this.next(what, (answer) => answer(status, problem(status, code), headers));
  }
}

export function problem(status, code) {
  const retryable = status === 408 || status === 429 || status >= 500;
  return { type: `/problems/${code}`, title: code, detail: `It is ${code}.`, status, code, retryable, request_id: "1" };
}

/** What AsyncStorage does, and what is written when. */
export class Storage {
  items = new Map();
  getItem = async (key) => this.items.get(key) ?? null;
  setItem = async (key, value) => void this.items.set(key, value);
  removeItem = async (key) => void this.items.delete(key);
}
