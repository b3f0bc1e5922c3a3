// @ts-self-types="./countersign.d.ts"
// What a user may do, and purchases that are not lost. See docs/javascript.md.

/** The same as in package.json; it goes with each request. */
export const version = "0.1.0";

export class CountersignError extends Error {
	constructor(kind, code, message, more) {
		super(message);
		Object.assign(this, { name: "CountersignError", kind, code, status: 0, problem: null, retryAfter: 0 }, more);
	}
}

const ignore = () => null;
const usual = { "content-type": "application/json", "countersign-client": `javascript/${version}` };
const unknown = { kind: "unknown", access: null, since: null };

export function createClient({
	baseURL,
	token,
	user,
	storage = { getItem() {}, setItem() {}, removeItem() {} },
	fetch = globalThis.fetch,
	keys,
	verify = globalThis.crypto?.subtle && verifyByWebCrypto,
	now = Date.now,
	wait = sleep,
}) {
	if (keys && verify === undefined) throw Error("Without WebCrypto, `keys` needs `verify`; null checks nothing.");
	const listeners = new Set();
	const posting = new Map();
	const unanswered = new Map(); // keys of lost answers
	let held = null, lastError = null, snapshot = unknown, published = unknown;
	let skew = 0, retryAt = 0, failures = 0;
	let kept = []; // transactions to post
	let saving = Promise.resolve(), fetchedKeys, isRead, started, closed, loading, refreshing, timer;

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
		if (state === published && !isNews) return;
		published = state;
		for (const each of listeners) queueMicrotask(() => each(state));
	}

	// Storage may fail: StoreKit still has the purchase.
	const place = (name) => `countersign.${name}.${user}`;
	const read = (name) => storage.getItem(place(name));
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
		const list = parse(await read("purchases")) ?? [];
		isRead = true;
		keep([].concat(list, kept));
		fetchedKeys ??= parse(await read("keys"));
		const stored = await open(await read("token")).catch(ignore);
		if (!closed) held ??= stored;
	}

	async function open(text, mayFetch) {
		const [head, body, signature] = text.split(".");
		const { alg, typ, kid, crit } = decoded(head);
		const { iat, exp, offline_until, access_until, sub, tier, status, environment, features } = decoded(body);
		if (alg !== "ES256" || typ !== "access+jwt" || crit || !(exp >= iat) || canonical(sub) !== canonical(user)) {
			throw Error("not theirs");
		}
		const isSignedBy = async (set) => {
			const key = set.keys.find((each) => each.kid === kid);
			return key && verify(key, ascii(binary(signature)), ascii(`${head}.${body}`));
		};
		let isSigned = !verify || (await isSignedBy(keys ?? fetchedKeys).catch(ignore));
		// Stored ones may be old or broken.
		if (!isSigned && !keys && mayFetch) {
			fetchedKeys = success(await request("/.well-known/jwks.json"), "keys");
			save("keys", JSON.stringify(fetchedKeys));
			isSigned = await isSignedBy(fetchedKeys);
		}
		if (!isSigned) throw Error("not signed");
		const accessUntil = access_until && new Date(access_until * 1000);
		// Access that had ended at issue is held while Apple is away.
		const until = Math.min(offline_until, access_until > iat ? access_until : Infinity);
		return {
			access: { user, tier, status, environment, accessUntil, features: features ?? {}, verified: !!verify },
			since: new Date(iat * 1000),
			from: (iat - 300) * 1000,
			fresh: Math.min(exp, until) * 1000,
			until: until * 1000,
		};
	}

	async function request(path, { body, headers, deadline = 10_000 } = {}) {
		const exchange = async (fresh, signal) => {
			const bearer = !closed && (await token({ fresh }));
			// Another user's bearer would make a purchase theirs.
			const named = attempt(() => decoded(bearer.split(".")[1]).sub) ?? user;
			if (!bearer || closed || canonical(named) !== canonical(user)) throw signedOut();
			const response = await fetch(baseURL.replace(/\/+$/, "") + path, {
				method: body ? "POST" : "GET",
				headers: { ...usual, ...headers, authorization: `Bearer ${bearer}` },
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
				if (answer.status !== 401) return answer;
			} catch (error) {
				throw ours(error, "later", "network", "The service cannot be reached.");
			} finally {
				control.abort();
			}
		}
		throw signedOut();
	}

	const refresh = () => (refreshing ??= fetchToken().finally(() => (refreshing = null)));
	async function fetchToken() {
		await load();
		try {
			const { token: text } = success(await request("/v1/profiles/me/token"), "token");
			const next = await open(text, true);
			if (closed) throw signedOut();
			held = next;
			skew = held.since - now();
			save("token", text);
			lastError = null;
		} catch (error) {
			lastError = ours(error, "refused", "untrusted_token", "The token is not signed, or not this user's.");
		}
		ended(lastError);
		publish(lastError);
		if (lastError) throw lastError;
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
				const body = { receipt_data: jws, transaction_id: attempt(() => decoded(jws.split(".")[1]).transactionId) };
				const answer = posting.get(jws) ?? request("/v1/validations", { body, deadline: 30_000 });
				posting.set(jws, answer);
				const said = success(await answer.finally(() => posting.delete(jws)), "profile_write");
				if (said.transaction_found === false) throw new CountersignError("later", "not_found_yet", "Not found yet.");
				isQueued ||= said.profile_write === "queued";
				result.done.push(jws);
			} catch (error) {
				(result[error.kind] ?? result.kept).push({ jws, error });
				// It may be about this one alone.
				if (error.kind !== "refused" && error.status < 500 && error.code !== "not_found_yet") stop = error;
			}
			attempt(() => onProgress?.({ completed: index + 1, total: all.length }));
		}
		const left = result.kept.map(({ jws }) => jws);
		await keep(kept.filter((jws) => left.includes(jws) || !all.includes(jws)));
		if (left.length) ended(result.kept[0].error);
		if (isQueued) await poll();
		if (result.done.length) await refreshAnew();
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
		const pause = error ? Math.max(error.retryAfter, Math.min(2 ** failures, 300)) : 30;
		retryAt = Math.max(retryAt, now() + pause * 1000);
		schedule();
	}

	async function schedule() {
		timer?.abort();
		if (!started || closed) return;
		const { kind } = current();
		const end = { known: held?.fresh, old: held?.until }[kind] ?? Infinity;
		const at = Math.min(end - skew, kept.length || kind !== "known" ? retryAt : Infinity);
		const { signal } = (timer = new AbortController());
		await wait(Math.min(at - now(), 3_600_000), signal);
		if (signal.aborted) return;
		publish();
		if (at >= retryAt) {
			retryAt = 0;
			await Promise.allSettled([kept.length && post(), current().kind !== "known" && refresh()]);
		}
		schedule();
	}

	function close() {
		closed = true;
		timer?.abort();
	}

	return {
		get state() { return current(); },
		get access() { return current().access; },
		get error() { return lastError; },
		getSnapshot: current,
		refresh,
		restore: post,
		close,
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
				const { feature, remaining, allowed } = answer.body ?? {};
				if (held && feature === name) {
					// Its `allowed` is about this amount.
					const left = { ...answer.body, allowed: (remaining ?? allowed) > 0 };
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
		async startTrial(body) {
			const trial = success(await request("/v1/trials", { body }), "state");
			await refreshAnew();
			return trial;
		},
		async variant(experiment) {
			return success(await request("/v1/profiles/me/access"), "experiments").experiments[experiment] ?? null;
		},
		async noteExposure(experiment, variant) {
			const events = [{ type: "experiment_exposed", properties: { experiment, variant } }];
			success(await request("/v1/events", { body: { events } }), "recorded");
		},
		signOut() {
			close();
			held = null;
			publish();
			return save("token");
		},
	};
}

// A proxy's page with a 200 is no answer: the purchase would be lost.
function success({ status, headers, body = null }, member) {
	if (status < 300 && body?.[member]) return body;
	const { code = "bad_answer", detail = `Status ${status}.`, retryable } = body ?? {};
	const kind = status >= 400 && status < 500 && retryable === false ? "refused" : "later";
	throw new CountersignError(kind, code, detail, { status, problem: body, retryAfter: Number(headers.get("retry-after")) || 0 });
}

const ours = (error, ...otherwise) => (error instanceof CountersignError ? error : new CountersignError(...otherwise));
const signedOut = () => new CountersignError("signedOut", "unauthenticated", "The user has to sign in again.");

function attempt(action) {
	try {
		return action();
	} catch {}
}

const parse = (text) => attempt(() => JSON.parse(text));
const binary = (base64url) => atob(base64url.replace(/-/g, "+").replace(/_/g, "/"));
const ascii = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
// Not every React Native has TextDecoder.
const decoded = (part) => JSON.parse(decodeURIComponent(escape(binary(part))));

// UUIDs come in either case.
const canonical = (id) => (/^[\da-f-]{36}$/i.test(id) ? id.toLowerCase() : id);

async function verifyByWebCrypto(key, signature, data) {
	const ecdsa = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
	return crypto.subtle.verify(ecdsa, await crypto.subtle.importKey("jwk", key, ecdsa, false, ["verify"]), signature, data);
}

const sleep = (time, signal) =>
	new Promise((resolve) => {
		const timer = setTimeout(resolve, time);
		signal?.addEventListener("abort", () => clearTimeout(timer));
	});
