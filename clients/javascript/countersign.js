// @ts-self-types="./countersign.d.ts"
// What a user may do, and purchases that are not lost. See docs/javascript.md.

/** The same as in package.json; it goes with each request. */
export const version = "0.1.0";

/** The usual events of a paywall: `Event.paywallViewed` and the like. */
export const Event = Object.fromEntries(
	["paywall_viewed", "paywall_dismissed", "plan_selected", "purchase_initiated", "purchase_completed", "purchase_failed",
		"purchase_cancelled", "trial_started", "restore_initiated", "restore_completed", "upgrade_prompt_shown",
		"upgrade_prompt_accepted", "upgrade_prompt_dismissed", "limit_reached",
	].map((name) => [name.replace(/_./g, (pair) => pair[1].toUpperCase()), name]),
);

export class CountersignError extends Error {
	constructor(kind, code, message, more) {
		super(message);
		Object.assign(this, { name: "CountersignError", kind, code, status: 0, problem: null, retryAfter: 0 }, more);
	}
}

export const ignore = () => null;
/** A service in the names of what is stored, which not every storage takes with other characters. */
export const slug = (baseURL) => baseURL.replace(/^\w+:\/+|\/+$/g, "").replace(/[^\w.-]/g, "_");
/** For countersign/trials. */
export const noStorage = { getItem() {}, setItem() {}, removeItem() {} };
const unknown = { kind: "unknown", access: null, since: null };

export function createClient({
	baseURL,
	token,
	user,
	storage = noStorage,
	fetch = globalThis.fetch,
	keys,
	verify = globalThis.crypto?.subtle && verifyByWebCrypto,
	now = Date.now,
	wait = sleep,
	store = {},
	trials,
	log,
}) {
	if (keys && verify === undefined) throw Error("Without WebCrypto, `keys` needs `verify`; null checks nothing.");
	const listeners = new Set();
	const posting = new Map();
	const unanswered = new Map(); // keys of lost answers
	let held = null, lastError = null, snapshot = unknown, published = unknown;
	let skew = 0, retryAt = 0, looked = 0, failures = 0;
	let kept = []; // transactions to post
	let saving = Promise.resolve(), fetchedKeys, isRead, started, closed, loading, refreshing, timer;
	let events = [], dropped = 0, areEventsRead, flushing, eventTimer, eventFailures = 0;
	let isCompared;
	const answers = {}; // the last ones, by name
	const products = {}; // the store's, by ID

	const place = (name) => `countersign.${name}.${slug(baseURL)}.${user}`;
	const { request, noted } = connect({ baseURL, fetch, now, wait, log, bearer });
	const demand = async (member, ...all) => success(await request(...all), member);
	const trial = trials?.({ request, place: place("trial"), storage, now, wait });

	async function bearer(fresh) {
		const text = !closed && (await token({ fresh }));
		// Another user's bearer would make a purchase theirs.
		const named = signed(text).sub ?? user;
		return !closed && canonical(named) === canonical(user) && text;
	}

	// The same object while nothing changes. A clock before `from` was set back.
	function current() {
		const time = now() + skew;
		const { access, since, fresh } = held && time >= held.from && time < held.until ? held : unknown;
		const kind = !access ? "unknown" : time < fresh ? "known" : "old";
		if (kind !== snapshot.kind || access !== snapshot.access) snapshot = { kind, access, since };
		return snapshot;
	}

	function publish(isNews) {
		const state = current();
		// `retryAt` is by a clock that was set back since, or the state is known no more: the kinds are in the order of the alphabet.
		if (now() < looked - 60_000 || state.kind > published.kind) retryAt = 0;
		looked = now();
		if (state === published && !isNews) return;
		published = state;
		for (const each of listeners) queueMicrotask(() => each(state));
	}

	// Storage may fail: StoreKit still has the purchase.
	const read = (name) => storage.getItem(place(name));
	const recall = async (name) => parse(await read(name));
	function save(name, value) {
		const write = () => (value ? storage.setItem(place(name), value) : storage.removeItem(place(name)));
		return (saving = saving.then(write).catch(ignore));
	}

	function keep(list) {
		kept = [...new Set(list)];
		return isRead && save("purchases", kept.length && JSON.stringify(kept));
	}

	// What cannot be read is kept, and read again.
	const load = () => (loading ??= loadAll().catch(() => (loading = null)));
	async function loadAll() {
		const list = (await recall("purchases")) ?? [];
		isRead = true;
		keep([].concat(list, kept));
		const waiting = await recall("events");
		events = [].concat(waiting?.events ?? [], events);
		dropped += waiting?.dropped ?? 0;
		areEventsRead = true;
		fetchedKeys ??= await recall("keys");
		// The token, and the difference of the clocks when it came.
		const [text, ahead] = `${await read("token")}`.split(" ");
		const stored = await open(text).catch(ignore);
		if (!closed && !held && stored) [held, skew] = [stored, Number(ahead) || 0];
	}

	async function open(text, mayFetch) {
		const [head, body, signature] = text.split(".");
		const { alg, typ, kid, crit } = decoded(head);
		const { iat, exp, offline_until, access_until, sub, tier, status, environment, features = {} } = decoded(body);
		if (alg !== "ES256" || typ !== "access+jwt" || crit || !(exp >= iat) || canonical(sub) !== canonical(user)) {
			throw Error();
		}
		const isSignedBy = async (set) => {
			const key = set.keys.find((each) => each.kid === kid);
			return key && verify(key, ascii(binary(signature)), ascii(`${head}.${body}`));
		};
		let isSigned = !verify || (await isSignedBy(keys ?? fetchedKeys).catch(ignore));
		// Stored ones may be old or broken.
		if (!isSigned && !keys && mayFetch) {
			fetchedKeys = await demand("keys", "/.well-known/jwks.json");
			save("keys", JSON.stringify(fetchedKeys));
			isSigned = await isSignedBy(fetchedKeys);
		}
		if (!isSigned) throw Error();
		// Access that had ended at issue is held while Apple is away.
		const until = Math.min(offline_until, access_until > iat ? access_until : Infinity);
		return {
			access: {
				user, tier, status, environment, accessUntil: access_until && new Date(access_until * 1000), features,
				verified: !!verify,
			},
			since: new Date(iat * 1000),
			from: (iat - 300) * 1000,
			fresh: Math.min(exp, until) * 1000,
			until: until * 1000,
		};
	}

	// A document by its entity tag. With `mayBeOld` the last answer counts while the service is away.
	async function ask(name, path, member, { mayBeOld, fresh = 0 } = {}) {
		const last = (answers[name] ??= await recall(name).catch(ignore));
		if (last && last.at <= now() && now() < last.at + fresh) return last;
		try {
			const answer = await request(path, { headers: last?.tag && { "if-none-match": last.tag } });
			const body = answer.status === 304 && last ? last.body : success(answer, member);
			if (closed) throw signedOut();
			answers[name] = { tag: answer.headers.get("etag"), body, at: now() };
			save(name, JSON.stringify(answers[name]));
			return answers[name];
		} catch (error) {
			if (!mayBeOld || error.kind !== "later" || !last) throw error;
			return { ...last, isOld: true };
		}
	}
	const variants = (how) => ask("access", "/v1/profiles/me/access", "experiments", how);
	const plans = async () => (await ask("plans", "/v1/plans", "plans", { mayBeOld: true, fresh: 300_000 })).body;

	// A price, and who is eligible for an offer, may change. The store may be away: its last answer counts then.
	async function sold(ids) {
		const found = await attempt(() => store.products?.([...new Set(ids)]))?.catch?.(ignore);
		for (const id of found ? ids : []) products[id] = found.find((each) => each.id === id);
	}

	async function offerings({ experiment } = {}) {
		const catalog = await plans();
		const variant = (experiment && (await variants({ mayBeOld: true }).catch(passes))?.body.experiments[experiment]) || null;
		await sold(catalog.offerings.flatMap((each) => each.packages.map((one) => one.product_id)));
		const all = catalog.offerings.map(({ name, metadata, packages }) => ({
			name, metadata,
			packages: packages.map(({ name, product_id: productID }) => {
				const { plan, listed } = find(catalog, productID);
				const product = products[productID] ?? null;
				return { name, productID, plan, kind: listed?.kind ?? null, period: product?.period ?? period(listed?.period), product };
			}),
		}));
		const named = (wanted) => all.find(({ name }) => name === wanted);
		return { all, current: named(variant) ?? named(catalog.current_offering) ?? null, variant };
	}

	async function profile() {
		const { body, isOld = false } = await ask("profile", "/v1/profiles/me", "profile_write", { mayBeOld: true });
		const catalog = await plans().catch(ignore);
		const id = body.product_id;
		if (id && !products[id]) await sold([id]);
		return { ...words(body, catalog, products[id], now() + skew), isOld };
	}

	// Nothing is posted where the store's entitlements and the tier agree.
	async function compare() {
		const { kind, access } = current();
		if (isCompared || !started || kind !== "known" || !store.currentEntitlements) return;
		isCompared = true;
		// A store that is away is asked after the next refresh.
		const owned = [...((await store.currentEntitlements().catch(() => (isCompared = false))) || [])];
		if (!owned.length) return;
		const catalog = await plans().catch(ignore);
		const rank = (tier) => catalog.plans.findIndex((each) => each.tier === tier);
		const differ = owned.filter((jws) => {
			const { plan } = catalog ? find(catalog, signed(jws).productId) : {};
			// Without the catalog's order only "nothing" is known to be less.
			return plan && rank(access.tier) >= 0 ? rank(plan.tier) > rank(access.tier) : access.status === "expired";
		});
		if (differ.length) await post(differ);
	}

	// Support may have moved it: the service judges.
	function isAnothers(jws) {
		const buyer = signed(jws).appAccountToken;
		return uuid.test(user) && uuid.test(buyer) && canonical(buyer) !== canonical(user);
	}

	const saveEvents = () => areEventsRead && save("events", (events.length || dropped) && JSON.stringify({ events, dropped }));
	function drop(count) {
		events.splice(0, count);
		dropped += count;
	}

	async function track(type, properties = {}) {
		await load();
		if (closed) return;
		if (/^[a-z]\w{0,63}$/i.test(type) && unescape(encodeURIComponent(JSON.stringify(properties))).length <= 8192) {
			events.push({ type, id: newID(), at: now(), properties });
		} else {
			dropped += 1;
			log?.({ level: "warning", message: "event dropped", type });
		}
		if (events.length > 1000) drop(events.length - 1000);
		while (JSON.stringify(events).length > 524_288) drop(10);
		flushLater(10_000);
		await saveEvents();
	}

	const flush = () => (flushing ??= deliver().finally(() => (flushing = null)));
	async function deliver() {
		await load();
		for (let alone = 0; ; saveEvents()) {
			drop(events.filter(({ at }) => at < now() - 89 * 86_400_000).length);
			const batch = events.slice(0, alone ? 1 : 50);
			if (!batch.length) return saveEvents();
			const body = { events: batch.map((each) => ({ ...each, at: new Date(each.at + skew).toISOString() })) };
			const answer = await request("/v1/events", { body });
			alone &&= alone - 1;
			const isRefused = [400, 413, 422].includes(answer.status) && answer.body?.retryable === false;
			if (!isRefused) success(answer, "recorded");
			// One of them is refused: each goes alone, and the others are taken.
			if (isRefused && batch.length > 1) alone = batch.length;
			else {
				events = events.filter((each) => !batch.includes(each));
				dropped += isRefused ? 1 : 0;
			}
		}
	}

	async function flushLater(pause) {
		if (!started || closed || eventTimer) return;
		const { signal } = (eventTimer = new AbortController());
		await wait(pause, signal);
		eventTimer = null;
		if (!signal.aborted) flushQuietly();
	}

	async function flushQuietly() {
		try {
			await flush();
			eventFailures = 0;
		} catch (error) {
			if (error.kind === "later") flushLater(Math.max(error.retryAfter, Math.min(2 ** ++eventFailures * 10, 600)) * 1000);
		}
	}

	// A trial that has begun or ended changes the state.
	async function withTrial(call, options) {
		if (!trial) throw Error("Give `createClient` the `trials` of countersign/trials.");
		let isRunning;
		try {
			const said = await trial[call](options);
			isRunning = said?.state === "running";
			if (trial.waitingCount) ended({ retryAfter: 0 });
			return said;
		} finally {
			if (call === "start" || (call === "useSession" && !isRunning)) await refreshAnew();
		}
	}

	const refresh = () => (refreshing ??= fetchToken().finally(() => (refreshing = null)));
	async function fetchToken() {
		await load();
		// The last session of a trial ends what the token says.
		if (trial) await trial.sync().catch(ignore);
		publish();
		try {
			const { token: text } = await demand("token", "/v1/profiles/me/token");
			const next = await open(text, true);
			if (closed) throw signedOut();
			held = next;
			skew = held.since - now();
			save("token", `${text} ${skew}`);
			lastError = null;
		} catch (error) {
			lastError = ours(error, "refused", "untrusted_token", "The token is not signed, or not this user's.");
		}
		ended(lastError);
		publish(lastError);
		if (lastError) throw lastError;
		compare().catch(ignore);
		return current();
	}

	// One under way may be older than the change.
	async function refreshAnew() {
		await refreshing?.catch(ignore);
		await refresh().catch(ignore);
	}

	async function post(list, onProgress) {
		await load();
		const all = [...new Set(list ?? kept)];
		await keep([...kept, ...all]);
		const result = { done: [], refused: [], kept: [] };
		let isQueued, stop;
		for (const [index, jws] of all.entries()) {
			try {
				if (stop) throw stop;
				const body = { receipt_data: jws, transaction_id: signed(jws).transactionId };
				const answer = posting.get(jws) ?? request("/v1/validations", { body, deadline: 30_000 });
				posting.set(jws, answer);
				const reply = await answer.finally(() => posting.delete(jws));
				const said = success(reply, "profile_write");
				// null is an answer only to a request that named none.
				if (!(said.transaction_found ?? !body.transaction_id)) {
					// The service may keep it for this user until it can ask Apple, which decides.
					const later = isAnothers(jws) ? reply.status > 200 && "not_yours_yet" : "not_found_yet";
					throw new CountersignError(later ? "later" : "refused", later || "owned_by_another_user", "Not in the answer.");
				}
				isQueued ||= said.profile_write === "queued";
				result.done.push(jws);
			} catch (error) {
				(result[error.kind] ?? result.kept).push({ jws, error });
				// It may be about this one alone.
				if (error.kind !== "refused" && error.status < 500 && !/_yet$/.test(error.code)) stop = error;
			}
			attempt(() => onProgress?.({ completed: index + 1, total: all.length }));
		}
		// The store has what may be another's.
		const failed = result.kept.filter(({ error }) => error.code !== "not_yours_yet");
		const left = failed.map(({ jws }) => jws);
		await keep(kept.filter((jws) => left.includes(jws) || !all.includes(jws)));
		if (failed[0]) ended(failed[0].error);
		if (isQueued) await poll();
		// A refused purchase may have been theirs until now.
		if (left.length < all.length) await refreshAnew();
		return { state: current(), ...result };
	}

	async function poll() {
		const end = now() + 10_000;
		for (let count = 0, headers; count < 4 && now() < end; count++) {
			await wait(2_000);
			const answer = await request("/v1/profiles/me", { headers, deadline: end - now() }).catch(ignore);
			if (["committed", "none"].includes(answer?.body?.profile_write)) return;
			if (answer) headers = { "if-none-match": answer.headers.get("etag") };
		}
	}

	function ended(error) {
		failures = error ? failures + 1 : 0;
		const pause = Math.max(error?.retryAfter ?? 30, Math.min(2 ** failures, 300));
		// A purchase waits as long as the service said.
		retryAt = Math.max(error || kept.length ? retryAt : 0, now() + pause * 1000);
		schedule();
	}

	async function schedule() {
		timer?.abort();
		if (!started || closed) return;
		const soon = now() + 60_000;
		const end = { known: held?.fresh, old: held?.until }[current().kind] - skew || soon;
		// A refresh that failed may know of a purchase what the state does not.
		const wantsToken = () => trial?.waitingCount || current().kind !== "known" || lastError?.kind === "later";
		const at = Math.min(end, soon, kept.length || wantsToken() ? retryAt : soon);
		const { signal } = (timer = new AbortController());
		await wait(at - now(), signal);
		if (signal.aborted) return;
		publish();
		if (now() >= retryAt) await Promise.allSettled([kept.length && post(), wantsToken() && refresh()]);
		schedule();
	}

	function close() {
		closed = true;
		timer?.abort();
		eventTimer?.abort();
	}

	return {
		get state() { return current(); },
		get access() { return current().access; },
		get error() { return lastError; },
		get waitingCount() { return kept.length; },
		getSnapshot: current,
		refresh,
		restore: post,
		close,
		plans,
		offerings,
		profile,
		track,
		flush,
		diagnose() {
			const { kind, access, since } = current();
			const { keys: set = [] } = keys ?? fetchedKeys ?? {};
			return {
				client: `javascript/${version}`, service: baseURL, user, at: new Date(now()),
				state: kind, tier: access?.tier ?? null, status: access?.status ?? null, since, verified: access?.verified ?? null,
				waitingPurchases: kept.length, waitingSessions: trial?.waitingCount ?? 0, waitingEvents: events.length, droppedEvents: dropped,
				clockDifference: held ? skew / 1000 : null, keyIDs: set.map((each) => each?.kid), arePinned: !!keys,
				error: lastError?.code ?? null, answers: noted(),
			};
		},
		isAllowed(name) {
			const { access } = current();
			return access && (access.features[name]?.allowed ?? access.features[name]) === true;
		},
		subscribe(listener) {
			listeners.add(listener);
			return () => listeners.delete(listener);
		},
		async start() {
			await load();
			started = true;
			publish();
			refresh().catch(ignore);
			if (kept.length) post();
			flushQuietly();
			return current();
		},
		async purchase(jws) {
			const { state, refused, kept } = await post([jws]);
			for (const { error } of [...refused, ...kept]) throw error;
			return state;
		},
		retry: () => post(),
		async consume(name, amount = 1) {
			const path = `/v1/profiles/me/usage/${encodeURIComponent(name)}`;
			const what = path + amount;
			const key = unanswered.get(what) ?? `${now()}-${Math.random()}`;
			unanswered.delete(what);
			try {
				const answer = await request(path, { body: { amount }, headers: { "idempotency-key": key } });
				const { feature, more_allowed } = answer.body ?? {};
				if (held && feature === name) {
					// Its `allowed` is about this amount.
					const left = { ...answer.body, allowed: more_allowed };
					held = { ...held, access: { ...held.access, features: { ...held.access.features, [name]: left } } };
					publish();
				}
				return success(answer, "feature");
			} catch (error) {
				// It may have counted: the next has the same key.
				if (error.kind !== "refused") unanswered.set(what, key);
				throw error;
			}
		},
		offers: () => demand("promotional", "/v1/profiles/me/offers"),
		// A signature is for one purchase, also one that fails.
		signPromotionalOffer: (product_id, offer_id) => demand("jws", "/v1/offers/promotional", { body: { product_id, offer_id } }),
		signIntroductoryOffer: (product_id, transaction_id) =>
			demand("jws", "/v1/offers/introductory", { body: { product_id, transaction_id } }),
		startTrial: (options) => withTrial("start", options),
		trial: () => withTrial("trial"),
		useTrialSession: () => withTrial("useSession"),
		registerDevice: (options) => withTrial("register", options),
		variant: async (experiment) => (await variants()).body.experiments[experiment] ?? null,
		async noteExposure(experiment, variant) {
			await track("experiment_exposed", { experiment, variant });
			await flush();
		},
		signOut() {
			close();
			held = null;
			publish();
			for (const name of ["profile", "access"]) save(name);
			return save("token");
		},
	};
}

// Requests to a service. `bearer` gives a false value where nobody is signed in.
export function connect({ baseURL, fetch, now, wait, log, bearer }) {
	let noted = [];
	async function request(path, { body, method = body ? "POST" : "GET", headers, deadline = 10_000 } = {}) {
		const exchange = async (fresh, signal) => {
			const text = await bearer(fresh);
			if (!text) throw signedOut();
			const response = await fetch(baseURL.replace(/\/+$/, "") + path, {
				method,
				headers: {
					"content-type": "application/json", "countersign-client": `javascript/${version}`,
					...headers, authorization: `Bearer ${text}`,
				},
				body: JSON.stringify(body),
				cache: "no-store", redirect: "error", signal,
			});
			if (response.headers.get("content-length") > 262_144) throw Error("too long");
			return { status: response.status, headers: response.headers, body: parse(await response.text()) };
		};
		for (const fresh of [false, true]) {
			const control = new AbortController();
			const late = wait(deadline, control.signal).then(() => Promise.reject());
			try {
				const answer = await Promise.race([exchange(fresh, control.signal), late]);
				note(`${method} ${path}`, answer);
				// A gateway's 401 is about no user.
				if (answer.status !== 401 || (fresh && answer.body?.code !== "unauthenticated")) return answer;
			} catch (error) {
				if (!(error instanceof CountersignError)) note(`${method} ${path}`);
				throw ours(error, "later", "network", "The service cannot be reached.");
			} finally {
				control.abort();
			}
		}
		throw signedOut();
	}

	function note(request, answer) {
		const { code = null, request_id } = (answer?.status >= 400 && answer.body) || {};
		const requestID = answer?.headers.get("x-request-id") ?? request_id ?? null;
		const entry = { at: new Date(now()), request, status: answer?.status ?? 0, code, requestID };
		noted = [...noted.slice(-9), entry];
		log?.({ level: answer ? "debug" : "warning", message: answer ? "request answered" : "request without an answer", ...entry });
	}

	return { request, noted: () => noted };
}

// A proxy's page with a 200 is no answer: the purchase would be lost.
export function success({ status, headers, body = null }, member) {
	if (status < 300 && body?.[member]) return body;
	const { code = "bad_answer", detail = `Status ${status}.`, retryable } = body ?? {};
	const kind = status >= 400 && status < 500 && retryable === false ? "refused" : "later";
	throw new CountersignError(kind, code, detail, {
		status, problem: body, retryAfter: Math.min(Number(headers.get("retry-after")) || 0, 86_400),
	});
}

// The plan and the entry of a product.
function find({ plans }, id) {
	const all = plans.map((plan) => ({ plan, listed: plan.products.find((each) => each.product_id === id) }));
	return all.find(({ listed }) => listed) ?? { plan: null };
}

// One unit of ISO 8601.
function period(text) {
	const [, count, unit] = /^P([1-9]\d*)([DWMY])$/.exec(text) ?? [];
	return unit ? { count: Number(count), unit: { D: "day", W: "week", M: "month", Y: "year" }[unit] } : null;
}

// The verdict with what a settings page shows.
function words(said, catalog, product, now) {
	const { tier, status, reason, product_id: productID, will_renew: willRenew } = said;
	const [expiresAt, accessUntil, commitmentExpiresAt] = [said.expires_at, said.access_until, said.commitment_expires_at]
		.map((text) => text && new Date(text));
	// Where Apple did not say whether it renews, the reason tells.
	const renews = willRenew ?? ["renewing", "renewal_due"].includes(reason);
	let nextBillingAt = null, endsAt = null, notice = null, suggestion = null;
	if (status === "grace_period") {
		notice = { kind: "paymentFailed", at: accessUntil };
		suggestion = "updatePayment";
	} else if (status === "expired") {
		endsAt = expiresAt;
		suggestion = endsAt ? "resubscribe" : "subscribe";
	} else if (renews) {
		nextBillingAt = expiresAt > now ? expiresAt : null;
	} else {
		endsAt = accessUntil;
		// A trial or a grant ends without anything to renew.
		suggestion = endsAt && (status === "cancelled" ? "resubscribe" : "subscribe");
	}
	if (endsAt && endsAt <= now + 3 * 86_400_000) notice = { kind: endsAt <= now ? "ended" : "endsSoon", at: endsAt };
	return {
		tier, status, reason, productID: productID ?? null, willRenew: willRenew ?? null, isTrial: !!said.is_trial, expiresAt, accessUntil,
		commitmentExpiresAt,
		tierName: catalog?.plans.find((each) => each.tier === tier)?.name ?? tier,
		productName: product?.displayName ?? null,
		period: product?.period ?? period(catalog && find(catalog, productID).listed?.period),
		nextBillingAt, endsAt, notice, suggestion, answer: said,
	};
}

// Trouble that passes is none here.
function passes(error) {
	if (error.kind !== "later") throw error;
}

export const ours = (error, ...otherwise) => (error instanceof CountersignError ? error : new CountersignError(...otherwise));
const signedOut = () => new CountersignError("signedOut", "unauthenticated", "Sign in again.");

function attempt(action) {
	try {
		return action();
	} catch {}
}

export const parse = (text) => attempt(() => JSON.parse(text));
const binary = (base64url) => atob(base64url.replace(/-/g, "+").replace(/_/g, "/"));
const ascii = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
// Not every React Native has WebCrypto.
export const newID = () =>
	globalThis.crypto?.randomUUID?.() ?? "00000000-0000-4000-8000-000000000000".replace(/0/g, () => Math.floor(Math.random() * 16).toString(16));
// What Apple signed, unchecked.
const signed = (jws) => attempt(() => decoded(jws.split(".")[1])) ?? {};
// Not every React Native has TextDecoder.
const decoded = (part) => JSON.parse(decodeURIComponent(escape(binary(part))));

// UUIDs come in either case.
export const uuid = /^[\da-f-]{36}$/i;
const canonical = (id) => (uuid.test(id) ? id.toLowerCase() : id);

async function verifyByWebCrypto(key, signature, data) {
	const ecdsa = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
	return crypto.subtle.verify(ecdsa, await crypto.subtle.importKey("jwk", key, ecdsa, false, ["verify"]), signature, data);
}

export const sleep = (time, signal) =>
	new Promise((resolve) => {
		const timer = setTimeout(resolve, time);
		signal?.addEventListener("abort", () => clearTimeout(timer));
	});
