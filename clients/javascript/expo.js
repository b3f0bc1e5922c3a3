// @ts-self-types="./expo.d.ts"
// expo-iap's products and purchases, 3.4 and later, as the client takes them. See docs/javascript.md.

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
		products: async (skus) => Promise.all(((await fetchProducts({ skus, type: "all" })) ?? []).map(product)),
		async currentEntitlements() {
			const owned = await getAvailablePurchases({ alsoPublishToEventListenerIOS: false, onlyIncludeActiveItemsIOS: true });
			return owned.filter((each) => each.purchaseState !== "pending").map((each) => each.purchaseToken).filter(Boolean);
		},
	};
}
