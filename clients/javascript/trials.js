// @ts-self-types="./trials.d.ts"
// Trials of the app's own, with an account and without one. See docs/javascript.md.
import { connect, CountersignError, ignore, newID, noStorage, ours, parse, sleep, slug, success, uuid } from "./countersign.js";

/** `trials` of a client. */
export const trials = ({ deviceStorage, deviceToken } = {}) => ({ storage, ...parts }) =>
	trialsOf({ ...parts, storage, deviceStorage: deviceStorage ?? storage, deviceToken });

/** The trial of this device, in an app without accounts. */
export function createTrials({
	baseURL, publicKey, storage = noStorage, deviceToken, fetch = globalThis.fetch, now = Date.now, wait = sleep, log,
}) {
	const { request } = connect({ baseURL, fetch, now, wait, log, bearer: () => publicKey });
	// Nobody can sign in.
	const ask = (...all) => request(...all).catch((error) => {
		if (error.kind !== "signedOut") throw error;
		throw new CountersignError("refused", "unauthenticated", "The service does not know this public key.");
	});
	const place = `countersign.device.trial.${slug(baseURL)}`;
	return trialsOf({ request: ask, place, storage, deviceStorage: storage, deviceToken, now, wait });
}

// Sessions have numbers, and a number counts once: the service knows it by its key.
function trialsOf({ request, place, storage, deviceStorage, deviceToken, now, wait }) {
	let kept, id, last = Promise.resolve();

	// One call after the other.
	const inTurn = (work) => (...all) => {
		const result = last.then(() => work(...all)).catch((error) => {
			throw ours(error, "refused", "storage", "What is kept on this device cannot be read or written.");
		});
		last = result.catch(ignore);
		return result;
	};

	async function device() {
		id ??= await deviceStorage.getItem("countersign.device");
		if (!uuid.test(id)) {
			const made = newID();
			await deviceStorage.setItem("countersign.device", made);
			id = made;
		}
		return id;
	}

	// What cannot be read is not replaced.
	const load = async () => (kept ??= { id: newID(), used: 0, counted: 0, trial: null, at: 0, ...parse(await storage.getItem(place)) });
	async function keep(change) {
		const next = { ...kept, ...change };
		await storage.setItem(place, JSON.stringify(next));
		kept = next;
	}
	const hear = (trial, more) => keep({ trial, at: now(), ...more });
	const waiting = () => (kept ? kept.used - kept.counted : 0);

	// As the service said it, less the sessions that wait.
	function shown() {
		const { trial } = kept;
		if (!trial) return null;
		const left = trial.sessions_remaining;
		const sessions_remaining = left == null ? null : Math.max(0, left - waiting());
		const state = trial.state === "running" && sessions_remaining === 0 ? "used_up" : trial.state;
		return { ...trial, sessions_used: trial.sessions_used + waiting(), sessions_remaining, state };
	}

	// The same without the service. A clock before the last answer was set back.
	function known() {
		if (!kept?.trial || now() < kept.at - 300_000) return null;
		const trial = shown();
		return trial.state === "running" && Date.parse(trial.expires_at) <= now() ? { ...trial, state: "over" } : trial;
	}

	async function ask() {
		const answer = await request(`/v1/trials/${await device()}`);
		await hear(answer.status === 404 && answer.body?.code === "not_found" ? null : success(answer, "state"));
		return shown();
	}

	async function postWaiting() {
		await load();
		while (waiting()) {
			const counted = kept.counted + 1;
			const headers = { "idempotency-key": `${kept.id}-${counted}` };
			try {
				await hear(success(await request(`/v1/trials/${await device()}/sessions`, { body: {}, headers }), "state"), { counted });
			} catch (error) {
				if (!endsTrial(error)) throw error;
				// The trial is over: the service would refuse the other sessions, too.
				await keep({ counted: kept.used });
				await ask().catch(ignore);
				throw error;
			}
		}
	}
	const sync = () => postWaiting().catch((error) => {
		if (!endsTrial(error)) throw error;
	});

	// The next turn waits for it, and no longer than for a bearer token.
	async function token() {
		const control = new AbortController();
		try {
			return (await Promise.race([deviceToken?.(), wait(10_000, control.signal)])) ?? undefined;
		} catch {} finally {
			control.abort();
		}
	}
	async function described(options) {
		const device_token = await token();
		return { device_token, second_device_token: device_token && (await token()), ...options };
	}

	return {
		get waitingCount() { return waiting(); },
		// A refresh waits for no turn where no session does.
		async sync() {
			if (!kept || waiting()) await inTurn(sync)();
		},
		start: inTurn(async (options) => {
			await load();
			const body = { ...(await described(options)), device_id: await device() };
			await hear(success(await request("/v1/trials", { body }), "state"));
			await sync().catch(ignore);
			return shown();
		}),
		trial: inTurn(async () => {
			try {
				await sync();
				return await ask();
			} catch (error) {
				const trial = error.kind === "later" && known();
				if (!trial) throw error;
				return trial;
			}
		}),
		useSession: inTurn(async () => {
			await load();
			const before = known();
			// Stored before it is posted: a kill neither loses it nor counts it twice.
			await keep({ used: kept.used + 1, at: Math.max(kept.at, now()) });
			try {
				await postWaiting();
			} catch (error) {
				const isAway = error.kind === "later";
				if (isAway && before?.state === "running") return known();
				// It was not granted. Another one has its key, in case it was counted all the same.
				if (!endsTrial(error)) await keep({ used: Math.max(kept.counted, kept.used - 1) });
				throw isAway && before ? new CountersignError("refused", "trial_over", "The trial is over, by what is known offline.") : error;
			}
			return shown();
		}),
		register: inTurn(async (options) => {
			await load();
			const { trial } = success(await request(`/v1/devices/${await device()}`, { method: "PUT", body: await described(options) }), "device_id");
			if (trial) await hear(trial);
			return trial && shown();
		}),
	};
}

const endsTrial = ({ kind, code }) => kind === "refused" && (code === "trial_over" || code === "not_found");
