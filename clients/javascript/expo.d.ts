import type { Store } from "./countersign.js";

/** Of expo-iap 3.4 and later, as far as it is used. */
export interface ExpoIAP {
  fetchProducts(request: { skus: string[]; type: "all" }): Promise<any>;
  getAvailablePurchases(options: { alsoPublishToEventListenerIOS: boolean; onlyIncludeActiveItemsIOS: boolean }): Promise<any>;
  isEligibleForIntroOfferIOS(groupID: string): Promise<boolean>;
}

/** `store` of a client: `expoStore({ fetchProducts, getAvailablePurchases, isEligibleForIntroOfferIOS })`. */
export function expoStore(functions: ExpoIAP): Store;
