// @ts-self-types="./paywall.d.ts"
// The words and the states of a paywall, without a view. See docs/javascript.md.
import { CountersignError, Event } from "./countersign.js";

/** In English. An app gives its own for other languages, also some of them. */
export const english = {
	per: ({ count, unit }) => (count === 1 ? `per ${unit}` : `for ${count} ${unit}s`),
	price: (price, per) => (per ? `${price} ${per}` : `${price}, once`),
	free: (length, then) => `${length} free, then ${then}`,
	introductory: (price, length, then) => `${price} for ${length}, then ${then}`,
	length: ({ count, unit }) => `${count} ${unit}${count === 1 ? "" : "s"}`,
	renewal: "It renews by itself, until you cancel it in the settings of your Apple account, a day before the period ends at the latest.",
	feature: (name, limit) => (limit === null ? name : `${name}: ${limit}`),
	success: "Thank you. It is unlocked.",
	recorded: "Thank you. It is bought, and counts in a moment.",
	restored: "Your purchases are restored.",
	nothing: "This Apple account has nothing to restore.",
	pending: "The purchase waits for approval. It is unlocked as soon as it is approved.",
	later: "It is bought. It counts as soon as the network is back.",
	away: "The plans cannot be loaded. Please try again.",
	refused: "This purchase was not accepted. Please contact support.",
	offer_not_signed: "The offer cannot be checked at the moment. Nothing was bought. Please try again later.",
	product_unavailable: "This product is not available at the moment.",
	store_unreachable: "The App Store cannot be reached. Please try again later.",
	store_error: "The App Store has a problem. Please try again later.",
	owned_by_another_user: "This purchase belongs to another account. Sign in with that account, or contact support.",
	signedOut: "Please sign in again.",
};

/** The price of a package in the store's words, with its period, and what this customer pays before. */
export function priceLine({ product, period }, words = english) {
	if (!product) return null;
	const { displayPrice, introductoryOffer: offer, isEligibleForIntroductoryOffer } = product;
	const price = words.price(displayPrice, period && words.per(period));
	if (!offer || !isEligibleForIntroductoryOffer) return price;
	const length = words.length({ count: offer.period.count * (offer.count || 1), unit: offer.period.unit });
	return offer.mode === "freeTrial" ? words.free(length, price) : words.introductory(offer.displayPrice, length, price);
}

/** What a plan has of the features that have a name for people. */
export function featureLines(plan, names, words = english) {
	return Object.entries(names)
		.map(([name, title]) => ({ name, title, ...plan?.features[name] }))
		.filter(({ included }) => included)
		.map(({ name, title, limit = null }) => ({ name, text: words.feature(title, limit) }));
}

/** The lowest plan on sale above a tier that has a feature, or more of it; null where none has. */
export function planThatLifts({ plans }, feature, tier) {
	const at = plans.findIndex((each) => each.tier === tier);
	const allowed = amount(plans[at]?.features[feature]);
	return plans.slice(at + 1).find(({ active = true, features }) => active && amount(features[feature]) > allowed) ?? null;
}

// A meter's rules all hold, as `10 per month`; without one it is unlimited.
function amount({ included, limit, rules = [] } = {}) {
	return included ? (limit ?? Math.min(...rules.map((rule) => Number.parseInt(rule, 10) || 0))) : 0;
}

/** A sentence for people; null where the user knows. */
export function sentence(error, words = english) {
	if (!(error instanceof CountersignError)) return words.store_error;
	return error.kind === "cancelled" ? null : (words[error.code] ?? words[error.kind]);
}

export function createPaywall({ client, buy, restore, experiment, source, words, now = Date.now }) {
	const all = { ...english, ...words };
	const listeners = new Set();
	const opened = now();
	let state = { phase: "idle", packages: [], variant: null, productID: null, message: null };
	const isBusy = () => ["loading_offerings", "purchasing", "verifying"].includes(state.phase);

	function set(change) {
		state = { ...state, ...change };
		for (const each of listeners) each();
	}

	function tell(type, properties) {
		client.track(type, { source, variant: state.variant ?? undefined, ...properties }).catch(() => {});
	}

	async function load() {
		if (isBusy()) return;
		set({ phase: "loading_offerings", message: null });
		try {
			const { current, variant } = await client.offerings({ experiment });
			const packages = (current?.packages ?? []).filter(({ product }) => product);
			set({ phase: packages.length ? "idle" : "failed", packages, variant, message: packages.length ? null : all.away });
			tell(Event.paywallViewed);
			if (experiment && variant) client.noteExposure(experiment, variant).catch(() => {});
		} catch (error) {
			set({ phase: "failed", message: error.kind === "signedOut" ? all.signedOut : all.away });
		}
	}

	async function act(productID, begun, work, done, failed, cancelled) {
		if (isBusy()) return;
		set({ phase: "purchasing", productID, message: null });
		const product = productID ?? undefined;
		tell(begun, { product });
		try {
			const message = await work(() => set({ phase: "verifying" }));
			set({ phase: "success", message });
			tell(done, { product });
		} catch (error) {
			const message = sentence(error, all);
			// What waits for an approval has not failed.
			const phase = { cancelled: "cancelled", pending: "idle" }[error.kind] ?? "failed";
			set({ phase, message });
			if (phase === "failed" && failed) tell(failed, { product, code: error.code });
			if (phase === "cancelled" && cancelled) tell(cancelled, { product });
		}
	}

	return {
		getSnapshot: () => state,
		subscribe(listener) {
			listeners.add(listener);
			return () => listeners.delete(listener);
		},
		words: all,
		load,
		async buy({ productID, kind }) {
			if (isBusy()) return;
			tell(Event.planSelected, { product: productID });
			const sold = async (verifying) => {
				await buy(productID, { verifying, kind });
				// It is recorded. The state after it may not be known yet.
				return client.error ? all.recorded : all.success;
			};
			await act(productID, Event.purchaseInitiated, sold, Event.purchaseCompleted, Event.purchaseFailed, Event.purchaseCancelled);
		},
		restore: () => act(null, Event.restoreInitiated, async (verifying) => {
			const { done, refused, kept } = await restore({ verifying });
			if (done.length) return all.restored;
			if (refused.length || kept.length) throw (refused[0] ?? kept[0]).error;
			throw new CountersignError("refused", "nothing", "The store account owns nothing.");
		}, Event.restoreCompleted),
		dismiss() {
			if (state.phase !== "success") tell(Event.paywallDismissed, { timeSpentMs: now() - opened });
		},
	};
}
