// @ts-self-types="./server.d.ts"
// A purchase from a server of yours, with its key. See docs/javascript.md.
import { CountersignError, version } from "./countersign.js";

export { CountersignError };

export async function validate(purchase, { baseURL, key, signal = AbortSignal.timeout(30_000), fetch = globalThis.fetch }) {
	const { status, headers, text } = await post().catch(() => {
		throw new CountersignError("later", "network", "The service cannot be reached.");
	});
	const body = parse(text);
	if ((status === 200 || status === 202) && typeof body?.profile_write === "string") return { status, verdict: body };
	// Only these are about the purchase. A refused key or a wrong address may be mended.
	const isRefusal = [400, 409, 413, 422].includes(status) && body?.retryable === false;
	const { code = "bad_answer", detail = `Status ${status}.` } = body ?? {};
	const retryAfter = Math.min(Number(headers.get("retry-after")) || 0, 86_400);
	throw new CountersignError(isRefusal ? "refused" : "later", code, detail, { status, problem: body, retryAfter });

	async function post() {
		const answer = await fetch(`${baseURL.replace(/\/+$/, "")}/v1/validations`, {
			method: "POST",
			headers: {
				authorization: `Bearer ${key}`, "content-type": "application/json", "countersign-client": `javascript/${version}`,
			},
			body: JSON.stringify(purchase),
			redirect: "error", signal,
		});
		return { status: answer.status, headers: answer.headers, text: await answer.text() };
	}
}

function parse(text) {
	try {
		return JSON.parse(text);
	} catch {
		return null;
	}
}
