// The paywall's states and words, the prompt at a limit, links after a sign-in, and purchases by expo-iap.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { createClient, CountersignError } from "./countersign.js";
import { expoPurchases, expoStore } from "./expo.js";
import { createHooks } from "./hooks.js";
import { createPaywall, english, featureLines, planThatLifts, priceLine, sentence } from "./paywall.js";
import { newKey, Service, Storage, Time, turns, until } from "./fake.mjs";

const user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11";
const key = await newKey("key-1");
let time, service, client, iap;
beforeEach(async () => {
  time = new Time();
  service = Object.assign(new Service(time, key), { user });
  await service.open();
  iap = new FakeIAP();
  client = createClient({
    baseURL: service.url, token: async () => "good", user, storage: new Storage(), keys: { keys: [key.jwk] }, fetch, now: () => time.now,
    wait: time.wait, store: expoStore(iap),
  });
});
afterEach(() => {
  client.close();
  service.close();
});

/** What expo-iap does on iOS: outcomes come to listeners, and the request itself is answered or refused. */
class FakeIAP {
  requests = [];
  finished = [];
  owned = [];
  sold = [
    { id: "pro.monthly", displayName: "Family Pro", displayPrice: "4,99 €", price: 4.99, currency: "EUR", subscriptionInfoIOS: { subscriptionPeriod: { unit: "month", value: 1 } } },
    {
      id: "pro.yearly", displayName: "Family Pro", displayPrice: "39,99 €", price: 39.99, currency: "EUR",
      subscriptionInfoIOS: {
        subscriptionGroupId: "1", subscriptionPeriod: { unit: "year", value: 1 },
        introductoryOffer: { paymentMode: "free-trial", period: { unit: "week", value: 1 }, periodCount: 1, price: 0, displayPrice: "0,00 €" },
      },
    },
  ];
  initConnection = async () => true;
  fetchProducts = async ({ skus }) => this.sold.filter(({ id }) => skus.includes(id));
  isEligibleForIntroOfferIOS = async () => true;
  getAvailablePurchases = async () => this.owned;
  requestPurchase = (request) => new Promise((answer, refuse) => Object.assign(this, { answer, refuse }).requests.push(request));
  finishTransaction = async ({ purchase }) => void this.finished.push(purchase.purchaseToken);
  purchaseUpdatedListener = (bought) => ((this.bought = bought), { remove: () => (this.bought = null) });
  purchaseErrorListener = (failed) => ((this.failed = failed), { remove: () => (this.failed = null) });
}

const purchase = (productId, purchaseToken = `jws-${productId}`) => ({ productId, purchaseToken, purchaseState: "purchased" });
const types = () => service.events.map(({ type, properties }) => [type, properties.product ?? properties.feature ?? null].join(" ").trim());

function paywall(more) {
  const purchases = expoPurchases(client, user, iap);
  const made = createPaywall({ client, buy: purchases.buy, restore: purchases.restore, source: "settings", now: () => time.now, ...more });
  const phases = [];
  made.subscribe(() => phases.push(made.getSnapshot().phase));
  return { made, phases, purchases };
}

test("000: a purchase goes through the seven states, and is finished when it is recorded", async () => {
  const { made, phases } = paywall();
  assert.equal(made.getSnapshot().phase, "idle");
  await made.load();
  const [monthly] = made.getSnapshot().packages;
  const buying = made.buy(monthly);
  await made.buy(monthly);
  await until(() => iap.requests.length);
  assert.deepEqual(iap.requests, [{ request: { apple: { sku: "pro.monthly", appAccountToken: user } }, type: "subs" }]);
  assert.deepEqual([made.getSnapshot().phase, iap.finished], ["purchasing", []]);
  iap.bought(purchase("pro.monthly"));
  await buying;
  assert.deepEqual(phases, ["loading_offerings", "idle", "purchasing", "verifying", "success"]);
  assert.deepEqual([made.getSnapshot().message, iap.finished, client.isAllowed("filters")], [english.success, ["jws-pro.monthly"], true]);
  made.dismiss();
  await client.flush();
  assert.deepEqual(types(), ["paywall_viewed", "plan_selected pro.monthly", "purchase_initiated pro.monthly", "purchase_completed pro.monthly"]);
});

test("000: what the user did not want, what waits and what failed are three states, each in words", async () => {
  const { made } = paywall({ words: { refused: "Non." } });
  await made.load();
  const [monthly] = made.getSnapshot().packages;
  const outcomes = [
    [() => iap.failed({ code: "user-cancelled", productId: "pro.monthly" }), "cancelled", null],
    [() => iap.refuse({ code: "deferred-payment" }), "idle", english.pending],
    [() => iap.bought({ ...purchase("pro.monthly"), purchaseState: "pending" }), "idle", english.pending],
    [() => iap.refuse({ code: "item-unavailable", message: "secret" }), "failed", english.product_unavailable],
    [() => iap.refuse({ code: "network-error" }), "failed", english.store_unreachable],
    [() => iap.refuse({ code: "unknown" }), "failed", english.store_error],
    [() => iap.bought(purchase("pro.monthly", "forged")), "failed", "Non."],
    [() => iap.bought(purchase("pro.monthly", "theirs")), "failed", english.owned_by_another_user],
    [() => (service.away("POST /v1/validations"), iap.bought(purchase("pro.monthly"))), "failed", english.later],
  ];
  for (const [outcome, phase, message] of outcomes) {
    const buying = made.buy(monthly);
    const count = iap.requests.length;
    await until(() => iap.requests.length > count || made.getSnapshot().phase === "purchasing");
    await turns();
    outcome();
    await buying;
    assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().message], [phase, message]);
  }
  assert.deepEqual(iap.finished, []);
  time.now += 5000;
  made.dismiss();
  await client.flush();
  const { type, properties } = service.events.at(-1);
  assert.deepEqual([type, properties], ["paywall_dismissed", { source: "settings", timeSpentMs: 5000 }]);
});

test("a purchase that is recorded has not failed where the state after it is not known yet", async () => {
  const { made } = paywall();
  service.away("GET /v1/profiles/me/token");
  const buying = made.buy({ productID: "pro.monthly" });
  await until(() => iap.requests.length);
  iap.bought(purchase("pro.monthly"));
  await buying;
  assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().message], ["success", english.recorded]);
  assert.deepEqual(iap.finished, ["jws-pro.monthly"]);
});

test("a purchase that is recorded and cannot be finished is unlocked, and comes again", async () => {
  const { made } = paywall();
  iap.finishTransaction = async () => Promise.reject(new Error("none"));
  const buying = made.buy({ productID: "pro.monthly" });
  await until(() => iap.requests.length);
  iap.bought(purchase("pro.monthly"));
  await buying;
  assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().message], ["success", english.success]);
  assert.equal(client.isAllowed("filters"), true);
});

test("an error of the store that names no product fails no purchase", async () => {
  const { made } = paywall();
  const buying = made.buy({ productID: "pro.monthly" });
  await until(() => iap.requests.length);
  iap.failed({ code: "network-error" });
  await turns();
  assert.equal(made.getSnapshot().phase, "purchasing");
  iap.bought(purchase("pro.monthly"));
  await buying;
  assert.equal(made.getSnapshot().phase, "success");
});

for (const [name, productId] of Object.entries({ "another product": "pro.yearly", "a transaction that was delivered before": "pro.monthly" })) {
  test(`a purchase that the store answers with ${name} is recorded, and settles`, async () => {
    const { purchases } = paywall();
    for (const answer of [purchase(productId), [purchase(productId)]]) {
      const count = iap.requests.length;
      let state;
      purchases.buy("pro.monthly").then((said) => (state = said));
      await until(() => iap.requests.length > count);
      if (productId !== "pro.monthly") iap.bought(purchase(productId));
      iap.answer(answer);
      await until(() => state);
      assert.equal(state.access.tier, "pro");
    }
    assert.deepEqual([...service.purchases], [`jws-${productId}`]);
    assert.deepEqual(new Set(iap.finished), service.purchases);
  });
}

test("a purchase that the store answers with nothing waits for its event", async () => {
  const { purchases } = paywall();
  for (const answer of [undefined, null, []]) {
    const count = iap.requests.length;
    const buying = purchases.buy("pro.monthly");
    await until(() => iap.requests.length > count);
    iap.answer(answer);
    await turns();
    iap.bought(purchase("pro.monthly"));
    assert.equal((await buying).access.tier, "pro");
  }
});

test("a store that rejects the request, and a purchase from elsewhere, are told and recorded", async () => {
  const { made, purchases } = paywall();
  await made.load();
  iap.requestPurchase = async () => Promise.reject(Object.assign(new Error("none"), { code: "not-prepared" }));
  await made.buy({ productID: "pro.monthly" });
  assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().message], ["failed", english.store_error]);
  iap.getAvailablePurchases = async () => Promise.reject(new Error("none"));
  await made.restore();
  assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().message], ["failed", english.store_error]);
  iap.bought(purchase("pro.yearly"));
  await until(() => iap.finished.length);
  assert.deepEqual([...service.purchases], ["jws-pro.yearly"]);
  const never = purchases.buy("pro.monthly");
  iap.requestPurchase = async () => {};
  purchases.remove();
  await assert.rejects(never, CountersignError);
  assert.deepEqual([iap.bought, iap.failed], [null, null]);
});

test("an offer is signed before the sheet, and goes to the store as it takes it", async () => {
  const { purchases } = paywall();
  assert.deepEqual((await client.offers()).promotional, [{ product_id: "pro.monthly", offer_id: "winter" }]);
  const apple = { sku: "pro.monthly", appAccountToken: user };
  const offers = [
    [{ promotional: "winter" }, { promotionalOfferJWS: { offerId: "winter", jws: "signed.for.pro.monthly" } }],
    [{ introductory: true, transactionID: "7" }, { compactJWS: "intro.for.7" }],
    [{ winBack: "back" }, { winBackOffer: { offerId: "back" } }],
  ];
  for (const [offer, more] of offers) {
    const count = iap.requests.length;
    const buying = purchases.buy("pro.monthly", { offer });
    await until(() => iap.requests.length > count);
    assert.deepEqual(iap.requests.at(-1), { request: { apple: { ...apple, ...more } }, type: "subs" });
    iap.bought(purchase("pro.monthly"));
    assert.equal((await buying).access.tier, "pro");
  }
  const count = iap.requests.length;
  const refused = purchases.buy("pro.monthly", { offer: { promotional: "summer" } });
  await assert.rejects(refused, { name: "CountersignError", kind: "refused", code: "offer_not_for_user" });
  for (const [path, offer] of [["promotional", { promotional: "winter" }], ["introductory", { introductory: true }]]) {
    service.away(`POST /v1/offers/${path}`);
    const error = await purchases.buy("pro.monthly", { offer }).catch((error) => error);
    assert.deepEqual([error.kind, error.code], ["refused", "offer_not_signed"]);
    assert.match(sentence(error), /Nothing was bought/);
  }
  assert.equal(iap.requests.length, count);
});

test("restore finishes what is recorded, and says where there is nothing", async () => {
  const { made, phases } = paywall();
  await made.restore();
  assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().message], ["failed", english.nothing]);
  iap.owned = [purchase("pro.monthly"), purchase("pro.yearly", "theirs")];
  await made.restore();
  assert.deepEqual([made.getSnapshot().message, iap.finished], [english.restored, ["jws-pro.monthly"]]);
  assert.deepEqual(phases.slice(-3), ["purchasing", "verifying", "success"]);
  iap.owned = [purchase("pro.yearly", "theirs")];
  await made.restore();
  assert.equal(made.getSnapshot().message, english.owned_by_another_user);
});

test("a paywall without plans or without a network says so, and an experiment's variant is reported", async () => {
  service.away("GET /v1/plans");
  const { made } = paywall({ experiment: "headline" });
  await made.load();
  assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().message], ["failed", english.away]);
  await made.load();
  assert.deepEqual([made.getSnapshot().phase, made.getSnapshot().variant], ["idle", "family"]);
  assert.deepEqual(made.getSnapshot().packages.map(({ productID }) => productID), ["pro.yearly"]);
  await until(() => service.events.some(({ type }) => type === "experiment_exposed"));
  iap.sold = [];
  const other = createClient({ baseURL: service.url, token: async () => "good", user, keys: { keys: [key.jwk] }, fetch, now: () => time.now, wait: time.wait });
  const empty = createPaywall({ client: other });
  await empty.load();
  assert.equal(empty.getSnapshot().message, english.away);
  other.close();
});

test("3.1.2: the price is the store's, with its period and what is before it", async () => {
  const { packages } = (await client.offerings()).current;
  assert.deepEqual(packages.map((each) => priceLine(each)), ["4,99 € per month", "1 week free, then 39,99 € per year"]);
  const product = { displayPrice: "9 $", introductoryOffer: { mode: "payAsYouGo", displayPrice: "1 $", period: { count: 1, unit: "month" }, count: 3 } };
  const period = { count: 6, unit: "month" };
  assert.equal(priceLine({ period, product: { ...product, isEligibleForIntroductoryOffer: true } }), "1 $ for 3 months, then 9 $ for 6 months");
  assert.equal(priceLine({ period, product: { ...product, isEligibleForIntroductoryOffer: false } }), "9 $ for 6 months");
  assert.equal(priceLine({ period: null, product: { displayPrice: "99 $", introductoryOffer: null } }), "99 $, once");
  assert.equal(priceLine({ period, product: null }), null);
});

const feature = (included, limit = null, rules = []) => ({ kind: "limit", included, limit, rules });
const catalog = {
  plans: [
    { tier: "free", features: { children: feature(true, 2), filters: feature(false), questions: feature(true, null, ["10 per month", "3 per day"]) } },
    { tier: "old", active: false, features: { children: feature(true, 50), filters: feature(true), questions: feature(true) } },
    { tier: "plus", features: { children: feature(true, 2), filters: feature(true), questions: feature(true, null, ["100 per month"]) } },
    { tier: "pro", name: "Family Pro", features: { children: feature(true, 99), filters: feature(true), questions: feature(true) } },
    { tier: "max", features: { children: feature(true), filters: feature(true) } },
  ],
};

test("the plan that lifts a limit is the lowest that has more", () => {
  for (const [name, tier, expected] of [
    ["children", "free", "pro"], ["children", "pro", "max"], ["children", "max", null], ["filters", "free", "plus"], ["filters", "plus", null],
    ["questions", "free", "plus"], ["questions", "plus", "pro"], ["questions", "pro", null],
    ["unheard of", "free", null], ["filters", "unheard of", "plus"],
  ]) assert.equal(planThatLifts(catalog, name, tier)?.tier ?? null, expected, `${name} ${tier}`);
  const names = { children: "Children", filters: "Advanced filters", other: "Other" };
  assert.deepEqual(featureLines(catalog.plans[3], names).map(({ text }) => text), ["Children: 99", "Advanced filters"]);
  assert.deepEqual(featureLines(null, names), []);
});

test("no error is told in a developer's words", () => {
  for (const kind of ["cancelled", "pending", "refused", "later", "signedOut"]) {
    const said = sentence(new CountersignError(kind, "any_code", "receipt eyJhbGciOi"));
    assert.doesNotMatch(said ?? "", /eyJ|any_code/);
    assert.equal(said === null, kind === "cancelled");
  }
  assert.equal(sentence(new TypeError("x")), english.store_error);
});

/** Hooks of one component, rendered again by hand. */
function react(context) {
  let cells = [], at = 0, effects = [];
  const changed = (one, other) => !one || one.some((each, index) => !Object.is(each, other[index]));
  return {
    render(component) {
      at = 0;
      const value = component();
      for (const run of effects.splice(0)) run();
      return value;
    },
    createContext: () => ({ Provider: "provider" }),
    createElement: () => null,
    useContext: () => context.client,
    useRef: (value) => (cells[at] ??= { current: value }, cells[at++]),
    useState(value) {
      const cell = (cells[at++] ??= { value });
      return [cell.value, (next) => (cell.value = next)];
    },
    useEffect(effect, inputs) {
      const index = at++;
      const last = cells[index];
      if (!changed(last?.inputs, inputs)) return;
      const cell = (cells[index] = { inputs });
      effects.push(() => {
        last?.leave?.();
        cell.leave = effect();
      });
    },
    useSyncExternalStore: (subscribe, snapshot) => snapshot(),
  };
}

test("000: at a limit the prompt is shown with the plan that lifts it, and what becomes of it is reported", async () => {
  service.plans.plans = catalog.plans.map((each) => ({ name: each.tier, products: [], ...each }));
  service.access.features = { children: { allowed: false, limit: 2, remaining: 0 }, filters: true };
  const React = react({ client });
  const { useUpgradePrompt } = createHooks(React);
  const prompt = () => React.render(() => useUpgradePrompt("children"));
  assert.equal(prompt().check(true), true);
  assert.equal(prompt().isShown, false);
  await client.refresh();
  await until(() => prompt().plan);
  assert.equal(prompt().check(true), false);
  const { isShown, plan, limit, remaining } = prompt();
  assert.deepEqual([isShown, plan.name, limit, remaining], [true, "Family Pro", 2, 0]);
  prompt().dismiss();
  assert.equal(prompt().isShown, false);
  prompt().dismiss();
  prompt().show();
  prompt().accept();
  await client.flush();
  assert.deepEqual(types(), [
    "limit_reached children", "upgrade_prompt_shown children", "upgrade_prompt_dismissed children", "upgrade_prompt_shown children",
    "upgrade_prompt_accepted children",
  ]);
  const allowed = react({ client });
  assert.equal(allowed.render(() => createHooks(allowed).useUpgradePrompt("filters")).check(), true);
});

test("a link waits until somebody is signed in, and is opened once", async () => {
  const context = { client: null };
  const React = react(context);
  const { useLinkAfterSignIn } = createHooks(React);
  const opened = [];
  let arrived;
  const links = { initial: async () => "app://paywall", listen: (listener) => ((arrived = listener), () => {}), open: (url) => opened.push(url) };
  const render = () => React.render(() => useLinkAfterSignIn(links));
  render();
  await turns();
  render();
  assert.deepEqual(opened, []);
  context.client = client;
  render();
  render();
  assert.deepEqual(opened, ["app://paywall"]);
  arrived("app://plans");
  render();
  render();
  assert.deepEqual(opened, ["app://paywall", "app://plans"]);
});
