// @ts-self-types="./preview.d.ts"
// A client for previews, screenshots and stories: no store, no service, no request. See docs/javascript.md.
import { createClient } from "./countersign.js";
import { trials } from "./trials.js";

const user = "00000000-0000-4000-8000-000000000000";
const DAY = 86_400_000;
const [product, yearly] = ["pro.monthly", "pro.yearly"];

const usualPlans = {
	plans: [
		{ tier: "free", name: "Free", description: null, features: {}, products: [] },
		{
			tier: "pro", name: "Pro", description: "Everything", features: {},
			products: [
				{ product_id: product, kind: "subscription", period: "P1M", prices: { USD: "4.99" } },
				{ product_id: yearly, kind: "subscription", period: "P1Y", prices: { USD: "39.99" } },
			],
		},
	],
	offerings: [{
		name: "default", metadata: {},
		packages: [{ name: "$rc_monthly", product_id: product }, { name: "$rc_annual", product_id: yearly }],
	}],
	current_offering: "default",
};

const usualProducts = [
	{
		id: product, displayName: "Pro Monthly", description: "", price: 4.99, displayPrice: "$4.99", currencyCode: "USD",
		period: { count: 1, unit: "month" }, introductoryOffer: null, isEligibleForIntroductoryOffer: null,
	},
	{
		id: yearly, displayName: "Pro Yearly", description: "", price: 39.99, displayPrice: "$39.99", currencyCode: "USD",
		period: { count: 1, unit: "year" },
		introductoryOffer: { mode: "freeTrial", price: 0, displayPrice: "$0.00", period: { count: 1, unit: "week" }, count: 1 },
		isEligibleForIntroductoryOffer: true,
	},
];

const states = {
	free: { status: "expired", reason: "no_purchases" },
	pro: { status: "active", reason: "renewing", days: 20, renews: true },
	trial: { status: "active", reason: "renewing", days: 5, renews: true, isTrial: true },
	appTrial: { status: "active", reason: "trial", days: 5, renews: false, isTrial: true },
	grace: { status: "grace_period", reason: "billing_grace", days: 10, renews: true },
	ending: { status: "cancelled", reason: "renewal_off", days: 2, renews: false },
	expired: { status: "expired", reason: "voluntary", days: -2, renews: false },
};

/** The settings of such a client, also for `CountersignProvider`. */
export function previewOptions(name = "pro", { features = {}, plans = usualPlans, products = usualProducts } = {}) {
	let shown = name, used = 0;
	const paid = plans.plans.findLast((each) => each.products.length);

	function verdict() {
		const { status, reason, days = 0, renews = null, isTrial = false } = states[shown];
		const end = days ? new Date(Date.now() + days * DAY).toISOString() : null;
		return {
			user_id: user, tier: days > 0 ? paid.tier : plans.plans[0].tier, status, reason, expires_at: end,
			access_until: days > 0 ? end : null, product_id: days ? paid.products[0].product_id : null, will_renew: renews,
			is_trial: isTrial, profile_write: "none", transaction_found: true,
		};
	}

	function token() {
		const { tier, status, access_until } = verdict();
		const iat = Math.floor(Date.now() / 1000);
		const until = access_until && Math.floor(Date.parse(access_until) / 1000);
		const claims = {
			sub: user, iat, exp: iat + 3600, offline_until: iat + 3600, access_until: until, tier, status, environment: null, features,
		};
		return [{ alg: "ES256", typ: "access+jwt", kid: "preview" }, claims]
			.map((part) => btoa(JSON.stringify(part)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "")).concat("").join(".");
	}

	const trial = () => ({
		trial: "default", user_id: user, device_id: user, tier: paid.tier, started_at: new Date().toISOString(),
		expires_at: new Date(Date.now() + 5 * DAY).toISOString(), sessions_total: 5, sessions_used: used, sessions_remaining: 5 - used,
		state: used < 5 ? "running" : "used_up",
	});

	function answer(path) {
		if (path === "/v1/profiles/me/token") return { token: token() };
		if (path === "/v1/profiles/me") return verdict();
		if (path === "/v1/profiles/me/access") return { experiments: {} };
		if (path === "/v1/plans") return plans;
		if (path === "/v1/events") return { recorded: 1 };
		if (path === "/v1/validations") {
			shown = "pro";
			return verdict();
		}
		if (path === "/v1/trials") {
			if (shown === "free") shown = "appTrial";
			return trial();
		}
		const hasTrial = shown === "appTrial" || used === 5;
		if (path.startsWith("/v1/devices/")) return { device_id: user, trial: hasTrial ? trial() : null };
		if (path.startsWith("/v1/trials/") && hasTrial) {
			if (!path.endsWith("/sessions")) return trial();
			if (used === 5) return null;
			if (++used === 5) shown = "free";
			return trial();
		}
		const feature = path.split("/v1/profiles/me/usage/")[1];
		return feature && { feature, tier: verdict().tier, kind: "meter", allowed: true, more_allowed: true, limit: null, remaining: null };
	}

	return {
		baseURL: "https://preview.invalid",
		token: () => "preview",
		user,
		verify: null,
		trials: trials(),
		store: { products: async (ids) => products.filter(({ id }) => ids.includes(id)), currentEntitlements: async () => [] },
		async fetch(url) {
			if (shown === "unknown") throw new TypeError("offline");
			const body = answer(url.replace("https://preview.invalid", ""));
			const status = body ? 200 : 404;
			const problem = { code: used === 5 ? "trial_over" : "not_found", detail: "A preview has none of this.", retryable: false };
			return { status, headers: new Headers(), text: async () => JSON.stringify(body ?? problem) };
		},
	};
}

/** A started client of them. Its state is there after one turn of the event loop. */
export function preview(name, content) {
	const client = createClient(previewOptions(name, content));
	client.start();
	return client;
}
