// Countersign's client: what a user may do, and purchases that are not lost. See docs/javascript.md.

export class CountersignError extends Error {
	constructor(kind, code, message, { status = 0, problem = null, retryAfter = 0 } = {}) {
		super(message);
		Object.assign(this, { name: "CountersignError", kind, code, status, problem, retryAfter });
	}
}

export function createClient({
	baseURL,
	token,
	user,
	storage = { getItem() {}, setItem() {}, removeItem() {} },
	fetch = (...all) => globalThis.fetch(...all),
	keys = null,
	verify = globalThis.crypto?.subtle && verifyByWebCrypto,
	now = Date.now,
	wait = sleep,
}) {
	const listeners = new Set();
	const posting = new Map(); // requests under way, by transaction
	const unanswered = new Map(); // keys of lost answers
	let held = null; // the last good token
	let skew = 0; // how far the service's clock is ahead
	let snapshot = { kind: "unknown", access: null, since: null };
	let published = snapshot;
	let lastError = null;
	let kept = []; // transactions that the service has not taken
	let fetchedKeys = null;
	let retryAt = 0;
	let failures = 0;
	let saving = Promise.resolve();
	let started = false;
	let closed = false;
	let loading, refreshing, timer;

	// Judged when it is read; the same object while nothing changes.
	function current() {
		const time = now() + skew;
		const isUsable = held && time >= held.from && time < held.until;
		const kind = !isUsable ? "unknown" : time < held.fresh ? "known" : "old";
		const { access, since } = kind === "unknown" ? { access: null, since: null } : held;
		if (kind !== snapshot.kind || access !== snapshot.access) snapshot = { kind, access, since };
		return snapshot;
	}

	function publish(isNews) {
		const state = current();
		if (state === published && !isNews) return;
		published = state;
		for (const each of listeners) queueMicrotask(() => each(state));
	}

	// Trouble with storage costs no purchase: StoreKit has what was not finished.
	const place = (name) => `countersign.${name}.${user}`;
	function save(name, value) {
		const write = () => (value ? storage.setItem(place(name), value) : storage.removeItem(place(name)));
		return (saving = saving.then(write).catch(() => {}));
	}

	function keep(list) {
		kept = [...new Set(list)];
		return save("purchases", kept.length && JSON.stringify(kept));
	}

	const load = () => (loading ??= loadAll().catch(() => {}));
	async function loadAll() {
		kept = [].concat(parse(await storage.getItem(place("purchases"))) ?? []);
		fetchedKeys = parse(await storage.getItem(place("keys")));
		held = await open(await storage.getItem(place("token")));
	}

	async function open(text, mayFetch) {
		const [head, body, signature] = text.split(".");
		const { alg, typ, kid, crit } = JSON.parse(utf8(head));
		const { iat, exp, offline_until, access_until, sub, tier, status, environment, features } = JSON.parse(utf8(body));
		if (alg !== "ES256" || typ !== "access+jwt" || crit || sub !== user || !(exp >= iat)) throw Error("not theirs");
		const key = verify && (await keyNamed(kid, mayFetch));
		const isSigned = key && (await verify(key, ascii(binary(signature)), ascii(`${head}.${body}`)));
		if (verify && !isSigned) throw Error("not signed");
		// Access that had ended at the issue is held while Apple is away, until `offline_until`.
		const end = access_until > iat ? access_until : Infinity;
		const accessUntil = access_until && new Date(access_until * 1000);
		return {
			access: { user, tier, status, environment, accessUntil, features: features ?? {}, verified: Boolean(verify) },
			since: new Date(iat * 1000),
			from: (iat - 300) * 1000, // a clock before this was set back
			fresh: Math.min(exp, offline_until, end) * 1000,
			until: Math.min(offline_until, end) * 1000,
		};
	}

	async function keyNamed(kid, mayFetch) {
		const named = (set) => set?.keys?.find((key) => key.kid === kid);
		if (!keys && mayFetch && !named(fetchedKeys)) {
			fetchedKeys = success(await request("GET", "/.well-known/jwks.json"), "keys");
			save("keys", JSON.stringify(fetchedKeys));
		}
		return named(keys ?? fetchedKeys);
	}

	async function request(method, path, { body, headers, deadline = 10_000 } = {}) {
		const exchange = async (fresh, signal) => {
			const bearer = await token({ fresh });
			if (!bearer) throw signedOut();
			const response = await fetch(baseURL.replace(/\/+$/, "") + path, {
				method,
				headers: { ...headers, authorization: `Bearer ${bearer}`, ...(body && { "content-type": "application/json" }) },
				body: body && JSON.stringify(body),
				cache: "no-store",
				redirect: "error",
				signal,
			});
			if (response.headers.get("content-length") > 262_144) throw Error("too long");
			return { status: response.status, headers: response.headers, body: parse(await response.text()) };
		};
		for (const fresh of [false, true]) {
			if (closed) throw signedOut();
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
			const { token: text } = success(await request("GET", "/v1/profiles/me/token"), "token");
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

	// A refresh that was under way may have been answered before the change.
	async function refreshAnew() {
		await refreshing?.catch(() => {});
		await refresh().catch(() => {});
	}

	async function post(list, onProgress) {
		await load();
		const all = [...new Set(list)];
		await keep([...kept, ...all]);
		const result = { done: [], refused: [], kept: [] };
		let isQueued, stop;
		for (const [index, jws] of all.entries()) {
			try {
				if (stop) throw stop;
				const options = { body: { receipt_data: jws }, deadline: 30_000 };
				const answer = posting.get(jws) ?? request("POST", "/v1/validations", options);
				posting.set(jws, answer);
				const { profile_write } = success(await answer.finally(() => posting.delete(jws)), "profile_write");
				isQueued ||= profile_write === "queued";
				result.done.push(jws);
			} catch (error) {
				const isRefused = error.kind === "refused";
				result[isRefused ? "refused" : "kept"].push({ jws, error });
				// A 5xx may be about this one alone.
				if (!isRefused && error.status < 500) stop = error;
			}
			onProgress?.({ completed: index + 1, total: all.length });
		}
		const left = result.kept.map((each) => each.jws);
		await keep(kept.filter((jws) => left.includes(jws) || !all.includes(jws)));
		if (left.length) ended(result.kept[0].error);
		if (isQueued) await poll();
		if (result.done.length) await refreshAnew();
		return { state: current(), ...result };
	}

	// Until the profile row is written.
	async function poll() {
		const end = now() + 10_000;
		for (let count = 0, headers; count < 4 && now() < end; count += 1) {
			await wait(2_000);
			const answer = await request("GET", "/v1/profiles/me", { headers, deadline: end - now() }).catch(() => null);
			if (["committed", "none"].includes(answer?.body?.profile_write)) return;
			if (answer) headers = { "if-none-match": answer.headers.get("etag") };
		}
	}

	// From start() on: posts that failed, and a refresh unless the state is known.
	function ended(error) {
		failures = error ? failures + 1 : 0;
		const pause = error ? Math.max(error.retryAfter, Math.min(2 ** failures, 300)) : 30;
		retryAt = Math.max(retryAt, now() + pause * 1000);
		schedule();
	}

	function schedule() {
		timer?.abort();
		if (!started || closed) return;
		const { kind } = current();
		const end = { known: held?.fresh, old: held?.until }[kind] ?? Infinity;
		const at = Math.min(end - skew, kept.length || kind !== "known" ? retryAt : Infinity);
		const { signal } = (timer = new AbortController());
		wait(Math.min(at - now(), 3_600_000), signal).then(() => signal.aborted || work(at));
	}

	async function work(at) {
		publish();
		if (at >= retryAt) {
			retryAt = 0;
			await Promise.allSettled([kept.length && post(kept), current().kind !== "known" && refresh()]);
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
			return () => void listeners.delete(listener);
		},
		async start() {
			await load();
			started = true;
			publish();
			refresh().catch(() => {});
			if (kept.length) post(kept);
			return current();
		},
		async purchase(jws) {
			const { state, refused, kept } = await post([jws]);
			for (const { error } of [...refused, ...kept]) throw error;
			return state;
		},
		retry: () => load().then(() => post(kept)),
		async consume(name, amount = 1) {
			const path = `/v1/profiles/me/usage/${encodeURIComponent(name)}`;
			const key = unanswered.get(path + amount) ?? `${now()}-${Math.random()}`;
			unanswered.delete(path + amount);
			try {
				const answer = await request("POST", path, { body: { amount }, headers: { "idempotency-key": key } });
				if (held && answer.body?.feature === name) {
					held = { ...held, access: { ...held.access, features: { ...held.access.features, [name]: answer.body } } };
					publish();
				}
				return success(answer, "feature");
			} catch (error) {
				// It may have been counted. The next attempt has the same key, and is not counted twice.
				if (error.kind !== "refused") unanswered.set(path + amount, key);
				throw error;
			}
		},
		async startTrial(body) {
			const trial = success(await request("POST", "/v1/trials", { body }), "state");
			await refreshAnew();
			return trial;
		},
		async signOut() {
			await load();
			held = null;
			publish();
			close();
			return save("token");
		},
	};
}

// A proxy's page with a 200 is no answer: a purchase would be finished for it, and lost.
function success({ status, headers, body }, member) {
	if (status < 300 && body?.[member]) return body;
	const { code = "bad_answer", detail = `The answer has status ${status}.`, retryable } = body ?? {};
	const kind = status >= 400 && status < 500 && retryable === false ? "refused" : "later";
	const retryAfter = Number(headers.get("retry-after")) || 0;
	throw new CountersignError(kind, code, detail, { status, problem: body, retryAfter });
}

function ours(error, ...otherwise) {
	return error instanceof CountersignError ? error : new CountersignError(...otherwise);
}

function signedOut() {
	return new CountersignError("signedOut", "unauthenticated", "The user has to sign in again.");
}

function parse(text) {
	try {
		return JSON.parse(text);
	} catch {
		return null;
	}
}

const binary = (base64url) => atob(base64url.replace(/-/g, "+").replace(/_/g, "/"));
const ascii = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
// Not by TextDecoder, which not every React Native has.
const utf8 = (base64url) => decodeURIComponent(escape(binary(base64url)));

async function verifyByWebCrypto(key, signature, data) {
	const { subtle } = globalThis.crypto;
	const ecdsa = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
	return subtle.verify(ecdsa, await subtle.importKey("jwk", key, ecdsa, false, ["verify"]), signature, data);
}

function sleep(time, signal) {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, time);
		signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()));
	});
}
