// @ts-self-types="./expo.d.ts"
// expo-iap's products and purchases, 3.4 and later, as the client takes them. See docs/javascript.md.
import { CountersignError } from "./countersign.js";

const modes = { "free-trial": "freeTrial", "pay-as-you-go": "payAsYouGo", "pay-up-front": "payUpFront" };
const length = ({ unit, value } = {}) => (["day", "week", "month", "year"].includes(unit) ? { count: value, unit } : null);

/** `store` of a client, over expo-iap's functions. */
export function expoStore({ fetchProducts, getAvailablePurchases, isEligibleForIntroOfferIOS }) {
	async function product(said) {
		const { subscriptionPeriod, introductoryOffer: offer, subscriptionGroupId } = said.subscriptionInfoIOS ?? {};
		const period = offer && length(offer.period);
		return {
			id: said.id, displayName: said.displayName ?? said.title, description: said.description, price: said.price ?? null,
			displayPrice: said.displayPrice, currencyCode: said.currency, period: length(subscriptionPeriod ?? undefined),
			introductoryOffer: period
				? { mode: modes[offer.paymentMode] ?? "unknown", price: offer.price, displayPrice: offer.displayPrice, period, count: offer.periodCount }
				: null,
			isEligibleForIntroductoryOffer: period && subscriptionGroupId ? await isEligibleForIntroOfferIOS(subscriptionGroupId) : null,
		};
	}

	return {
		async products(skus) {
			const found = await fetchProducts({ skus, type: "all" });
			return found && Promise.all(found.map(product));
		},
		async currentEntitlements() {
			const owned = await getAvailablePurchases({ alsoPublishToEventListenerIOS: false, onlyIncludeActiveItemsIOS: true });
			return owned.filter((each) => each.purchaseState !== "pending").map((each) => each.purchaseToken).filter(Boolean);
		},
	};
}

/**
 * Purchases by expo-iap's functions: everything that the store delivers is posted, and finished when the service has recorded it.
 * Never before: an unfinished one comes again.
 */
export function expoPurchases(client, user, iap) {
	const waiting = new Map();
	const ready = Promise.resolve(iap.initConnection());
	ready.catch(() => {});

	async function settle(purchase, sku = purchase.productId) {
		const { purchaseToken, purchaseState } = purchase;
		const { verifying, resolve, reject } = waiting.get(sku) ?? {};
		waiting.delete(sku);
		try {
			if (purchaseState === "pending" || !purchaseToken) throw new CountersignError("pending", "pending", "It waits for an approval.");
			verifying?.();
			const state = await client.purchase(purchaseToken);
			await finish(purchase).catch(() => {});
			resolve?.(state);
		} catch (error) {
			reject?.(error);
		}
	}

	// The purchase is recorded: one that is not finished comes again.
	const finish = async (purchase) => iap.finishTransaction({ purchase, isConsumable: false });

	// Without a product's ID it may be about anything; a request's own failure rejects the request.
	function fail(error, sku) {
		const productID = sku ?? error.productId;
		waiting.get(productID)?.reject(error instanceof CountersignError ? error : storeError(error));
		waiting.delete(productID);
	}

	// `later` would tell the user that something was bought and is kept.
	async function sign(signature) {
		const { jws } = await signature.catch((error) => {
			throw error.kind === "later" ? new CountersignError("refused", "offer_not_signed", error.message) : error;
		});
		return jws;
	}

	// As StoreKit takes an offer.
	async function signed(sku, { promotional, introductory, transactionID, winBack } = {}) {
		if (promotional) return { promotionalOfferJWS: { offerId: promotional, jws: await sign(client.signPromotionalOffer(sku, promotional)) } };
		if (introductory) return { compactJWS: await sign(client.signIntroductoryOffer(sku, transactionID)) };
		return winBack ? { winBackOffer: { offerId: winBack } } : {};
	}

	const listeners = [iap.purchaseUpdatedListener((purchase) => settle(purchase)), iap.purchaseErrorListener((error) => fail(error))];

	return {
		ready,
		async buy(sku, { verifying, kind, offer } = {}) {
			if (waiting.has(sku)) throw new CountersignError("cancelled", "under_way", "It is being bought.");
			const outcome = new Promise((resolve, reject) => waiting.set(sku, { verifying, resolve, reject }));
			const apple = uuid.test(user) ? { sku, appAccountToken: user } : { sku };
			// The outcome comes to the listeners.
			Promise.all([signed(sku, offer), ready])
				.then(([more]) => iap.requestPurchase({
					request: { apple: { ...apple, ...more } }, type: offer || kind === "subscription" ? "subs" : "in-app",
				}))
				.then((answer) => {
					// A transaction comes to them once, and where the plan changes at the renewal it has the former product.
					const purchase = [answer].flat().find((each) => each?.purchaseToken);
					if (purchase && waiting.has(sku)) settle(purchase, sku);
				})
				.catch((error) => fail(error ?? {}, sku));
			return outcome;
		},
		async restore({ verifying, onProgress } = {}) {
			const owned = async () => iap.getAvailablePurchases({ alsoPublishToEventListenerIOS: false, onlyIncludeActiveItemsIOS: true });
			const found = await ready.then(owned).catch((error) => {
				throw storeError(error ?? {});
			});
			verifying?.();
			const byToken = new Map(found.filter((each) => each.purchaseToken).map((each) => [each.purchaseToken, each]));
			const result = await client.restore(byToken.keys(), onProgress);
			for (const token of result.done) await finish(byToken.get(token)).catch(() => {});
			return result;
		},
		remove() {
			for (const each of listeners) each.remove();
			for (const { reject } of waiting.values()) reject(new CountersignError("cancelled", "closed", "The app has closed it."));
			waiting.clear();
		},
	};
}

const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

// expo-iap's codes are words. A failure has a code of the client's own, as in Swift, and expo-iap's in the message.
const kinds = { "user-cancelled": "cancelled", "deferred-payment": "pending", pending: "pending" };
const codes = {
	"item-unavailable": "product_unavailable", "sku-not-found": "product_unavailable", "network-error": "store_unreachable",
	"remote-error": "store_unreachable", "service-error": "store_unreachable", "service-disconnected": "store_unreachable",
};
function storeError({ code = "none", message = "The App Store did not sell it." }) {
	if (kinds[code]) return new CountersignError(kinds[code], code, String(message));
	return new CountersignError("refused", codes[code] ?? "store_error", `${code}: ${message}`);
}
