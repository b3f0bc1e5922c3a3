// Requirement 004: a trial of the app's own, with an account and without one; and the app that is killed at each await.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { createClient, CountersignError } from "./countersign.js";
import { createTrials, trials } from "./trials.js";
import { DAY, newKey, problem, Service, Storage, Time, turns, until } from "./fake.mjs";

const key = await newKey("key-1");
let time, service, storage, ahead, offline, clients;
beforeEach(async () => {
  [time, storage, clients, ahead, offline] = [new Time(), new Storage(), [], 0, 0];
  service = new Service(time, key);
  await service.open();
});
afterEach(() => {
  for (const each of clients) each.close();
  service.close();
});

const online = async (...all) => {
  if (offline > 0) {
    offline -= 1;
    throw new TypeError("offline");
  }
  return fetch(...all);
};
const usual = () => ({ baseURL: service.url, storage, fetch: online, now: () => time.now + ahead, wait: time.wait });
const app = (more) => createTrials({ ...usual(), publicKey: "appl_public", ...more });
function client(more) {
  const made = createClient({
    ...usual(), token: async () => "good", user: "user-1", keys: { keys: [key.jwk] }, trials: trials({ deviceStorage: storage }), ...more,
  });
  clients.push(made);
  return made;
}
const counted = () => service.trials.map(({ owner, sessions }) => `${owner.replace(/:.*/, "")} ${sessions.size}`);
const fails = (kind, code) => (error) => {
  assert.ok(error instanceof CountersignError, error);
  assert.deepEqual([error.kind, error.code], [kind, code]);
  return true;
};

test("004: an app without accounts finds its trial after a reinstall", async () => {
  const begun = await app().start({ trial: "week", device: { model: "iPhone15,2" } });
  assert.deepEqual([begun.state, begun.sessions_remaining], ["running", 30]);
  for (let session = 0; session < 5; session += 1) await app().useSession();
  const again = app();
  assert.equal((await again.trial()).sessions_used, 5);
  assert.equal((await again.start()).started_at, begun.started_at);
  assert.deepEqual(counted(), ["$device 5"]);
  assert.match(storage.items.get("countersign.device"), /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
});

test("004: a session without a connection is granted, and counted once when the service is back", async () => {
  const device = app();
  const { device_id } = await device.start();
  service.next(`POST /v1/trials/${device_id}/sessions`, (_, response) => response.destroy(), true);
  assert.equal((await device.useSession()).sessions_used, 1);
  offline = 4;
  assert.equal((await device.useSession()).sessions_used, 2);
  assert.equal((await device.useSession()).sessions_used, 3);
  assert.equal(device.waitingCount, 3);
  offline = 0;
  // The app was killed meanwhile.
  const again = app();
  assert.equal((await again.trial()).sessions_remaining, 27);
  assert.deepEqual([again.waitingCount, ...counted()], [0, "$device 3"]);
});

test("004: offline no more sessions are granted than are left", async () => {
  service.trialSessions = 2;
  const device = app();
  await device.start();
  offline = 9;
  assert.equal((await device.useSession()).state, "running");
  assert.equal((await device.useSession()).state, "used_up");
  await assert.rejects(device.useSession(), fails("refused", "trial_over"));
  offline = 0;
  assert.equal((await device.trial()).state, "used_up");
  assert.deepEqual(counted(), ["$device 2"]);
});

test("004: sessions at the same time count each", async () => {
  const device = app();
  await device.start();
  const all = await Promise.allSettled(Array.from({ length: 40 }, () => device.useSession()));
  assert.equal(all.filter(({ status }) => status === "fulfilled").length, 30);
  assert.deepEqual(counted(), ["$device 30"]);
});

test("004: what is repeated after no answer counts once", async () => {
  await app().start();
  const device = storage.items.get("countersign.device");
  storage = new Storage();
  storage.items.set("countersign.device", device);
  const again = app();
  service.next(`POST /v1/trials/${device}/sessions`, (_, response) => response.destroy(), true);
  await assert.rejects(again.useSession(), fails("later", "network"));
  assert.equal(again.waitingCount, 0);
  assert.equal((await again.useSession()).sessions_used, 1);
});

test("004: a clock that is set back extends nothing, and time ends a trial offline", async () => {
  const device = app();
  await device.start();
  offline = 9;
  ahead = 6 * DAY;
  assert.equal((await device.useSession()).state, "running");
  ahead = DAY;
  await assert.rejects(device.useSession(), fails("later", "network"));
  ahead = 7 * DAY;
  await assert.rejects(device.useSession(), fails("refused", "trial_over"));
  assert.equal(device.waitingCount, 1);
});

test("004: a sign-in takes the trial along, a second device shares it", async () => {
  const device = app();
  const begun = await device.start();
  offline = 1;
  await device.useSession();
  const user = client();
  assert.equal((await user.startTrial()).started_at, begun.started_at);
  assert.equal(user.isAllowed("filters"), true);
  // What the device still had to say is counted for the user.
  await device.sync();
  assert.equal((await user.useTrialSession()).sessions_used, 2);
  const second = client({ storage: new Storage(), trials: trials() });
  assert.equal((await second.startTrial()).sessions_used, 2);
  assert.equal((await second.useTrialSession()).sessions_used, 3);
  assert.deepEqual(counted(), ["user-1 3"]);
  assert.equal((await second.registerDevice({ push_token: "push" })).sessions_used, 3);
});

test("004: the last session ends access at once", async () => {
  service.trialSessions = 1;
  const user = client();
  await user.startTrial();
  assert.equal(user.isAllowed("filters"), true);
  assert.equal((await user.useTrialSession()).state, "used_up");
  assert.equal(user.isAllowed("filters"), false);
  await assert.rejects(user.useTrialSession(), fails("refused", "trial_over"));
});

test("a started client posts the sessions that wait by itself", async () => {
  const user = client();
  await user.start();
  await user.startTrial();
  offline = 1;
  await user.useTrialSession();
  assert.equal(user.diagnose().waitingSessions, 1);
  await time.advance(60_000, () => until(() => user.diagnose().waitingSessions === 0));
  assert.deepEqual(counted(), ["user-1 1"]);
});

test("a trial that is used, or not needed, is refused", async () => {
  const user = client();
  await user.refresh();
  const before = user.access;
  for (const code of ["trial_used", "trial_not_needed"]) {
    service.next("POST /v1/trials", (answer) => answer(409, problem(409, code)));
    await assert.rejects(user.startTrial(), fails("refused", code));
  }
  assert.deepEqual(user.access, before);
  await assert.rejects(client({ trials: undefined }).startTrial(), /countersign\/trials/);
});

test("the tokens of DeviceCheck go with the start, and none is no trouble", async () => {
  let count = 0;
  await app({ deviceToken: async () => `token ${(count += 1)}` }).start({ development: true });
  const { device_token, second_device_token, development } = service.requests.at(-1).body;
  assert.deepEqual([device_token, second_device_token, development], ["token 1", "token 2", true]);
  const failing = async () => {
    throw new Error("not supported");
  };
  assert.equal((await app({ deviceToken: failing }).start()).state, "running");
});

test("a token of DeviceCheck that never comes is waited for as long as a bearer token, and holds up no refresh and no purchase", async () => {
  let asked = 0;
  const never = trials({ deviceToken: () => new Promise(() => (asked += 1)) });
  const user = client({ trials: never });
  await user.refresh();
  let tier, begun;
  user.startTrial().then((said) => (begun = said));
  await until(() => asked);
  user.purchase("jws-1").then(({ access }) => (tier = access.tier));
  await until(() => tier === "pro");
  await time.advance(9_999);
  assert.equal(begun, undefined);
  await time.advance(1);
  await until(() => begun);
  assert.deepEqual([asked, begun.state, time.timers.size], [1, "running", 0]);
});

test("a public key that the service does not know is a refusal, and so is a storage that fails", async () => {
  await assert.rejects(app({ publicKey: "wrong" }).start(), fails("refused", "unauthenticated"));
  assert.equal(await app().trial(), null);
  await assert.rejects(app().useSession(), fails("refused", "not_found"));
  await app().start();
  offline = 1;
  await app().useSession();
  const broken = app({ storage: { ...storage, getItem: () => Promise.reject(new Error("locked")) } });
  await assert.rejects(broken.useSession(), fails("refused", "storage"));
  assert.equal((await app().useSession()).sessions_used, 2);
});

// The app is killed at each await in turn, and started again on the same device.

/** Storage and network of an app that lives for so many steps. Afterwards nothing happens, and nothing is answered. */
function mortal(steps) {
  const life = { isOver: steps <= 0 };
  const step = () => {
    if (life.isOver) throw new Error("dead");
    life.isOver = --steps <= 0;
  };
  life.storage = Object.fromEntries(["getItem", "setItem", "removeItem"].map((name) => [name, async (...all) => {
    step();
    return storage[name](...all);
  }]));
  life.fetch = async (...all) => {
    step();
    const answer = await online(...all);
    const text = await answer.text();
    step();
    return { status: answer.status, headers: answer.headers, text: async () => text };
  };
  life.finish = () => step();
  return life;
}

/** Lives the app's life once for each step at which it may end, and once whole. */
async function atEachStep(live, check, prepare = async () => {}) {
  for (let steps = 1; steps < 200; steps += 1) {
    service.close();
    service = new Service(time, key);
    await service.open();
    storage = new Storage();
    await prepare();
    const life = mortal(steps);
    const noted = [];
    await live(life, (what) => life.isOver || noted.push(what)).catch(() => {});
    await turns();
    const isWhole = !life.isOver;
    for (const each of clients) each.close();
    service.script = [];
    offline = 0;
    await check(noted, `step ${steps}`);
    if (isWhole) return assert.ok(steps > 3);
  }
  assert.fail("The app never comes to the end of what it does.");
}

/** The App Store brings what was not finished at each start. */
async function restarted(unfinished) {
  const next = client();
  await next.start();
  for (const jws of unfinished) await next.purchase(jws);
  await next.retry();
  return next;
}

for (const isTroubled of [false, true]) {
  test(`a purchase counts once, wherever the app is killed${isTroubled ? ", and where an answer is lost" : ""}`, async () => {
    const unfinished = new Set();
    await atEachStep(
      async (life) => {
        unfinished.add("jws-1");
        const buyer = client(life);
        await buyer.purchase("jws-1").catch(() => buyer.retry());
        life.finish();
        unfinished.delete("jws-1");
      },
      async (noted, step) => {
        const next = await restarted(unfinished);
        assert.deepEqual([...service.purchases], ["jws-1"], step);
        assert.deepEqual([next.waitingCount, next.isAllowed("filters")], [0, true], step);
      },
      async () => isTroubled && service.next("POST /v1/validations", (_, response) => response.destroy(), true),
    );
  });
}

test("each purchase of a restore counts once, wherever the app is killed", async () => {
  const owned = ["jws-1", "jws-2", "jws-3"];
  const store = { currentEntitlements: async () => owned };
  await atEachStep(
    (life) => client(life).restore(owned),
    async (noted, step) => {
      const next = client({ store });
      await next.start();
      await until(() => service.purchases.size === 3 && next.waitingCount === 0);
      assert.deepEqual([service.purchases.size, next.waitingCount], [3, 0], step);
    },
    async () => Object.assign(service.access, { status: "expired" }),
  );
});

test("an event is delivered once, wherever the app is killed", async () => {
  await atEachStep(
    async (life, note) => {
      const user = client(life);
      for (const name of ["first", "second"]) {
        await user.track(name);
        note(name);
        await user.flush();
      }
    },
    async (noted, step) => {
      await client().flush();
      const names = service.events.map(({ type }) => type);
      assert.deepEqual(names, ["first", "second"].slice(0, names.length), step);
      assert.ok(names.length >= noted.length, step);
    },
  );
});

for (const isOffline of [false, true]) {
  test(`a session of a trial counts once, wherever the app is killed${isOffline ? ", and where an answer is lost" : ""}`, async () => {
    await atEachStep(
      async (life, note) => {
        const device = app(life);
        for (const name of ["first", "second"]) {
          await device.useSession();
          note(name);
        }
      },
      async (noted, step) => {
        const device = app();
        await device.sync();
        const used = (await device.trial()).sessions_used;
        // One that was not granted yet may count, and no other.
        assert.ok(used === noted.length || used === noted.length + 1, `${step}: ${used} of ${noted}`);
        assert.deepEqual([device.waitingCount, service.trials.length], [0, 1], step);
      },
      async () => {
        const { device_id } = await app().start();
        if (isOffline) service.next(`POST /v1/trials/${device_id}/sessions`, (_, response) => response.destroy(), true);
      },
    );
  });
}

test("a trial begins once, wherever the app is killed", async () => {
  await atEachStep(
    (life) => app(life).start(),
    async (noted, step) => {
      await app().start();
      assert.equal(service.trials.length, 1, step);
    },
  );
});
