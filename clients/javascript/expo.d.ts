import type { Client, Posted, State, Store } from "./countersign.js";

/** Of expo-iap 3.4 and later, as far as it is used. */
export interface ExpoIAP {
  fetchProducts(request: { skus: string[]; type: "all" }): Promise<any>;
  getAvailablePurchases(options: { alsoPublishToEventListenerIOS: boolean; onlyIncludeActiveItemsIOS: boolean }): Promise<any>;
  isEligibleForIntroOfferIOS(groupID: string): Promise<boolean>;
}

/** `store` of a client: `expoStore({ fetchProducts, getAvailablePurchases, isEligibleForIntroOfferIOS })`. */
export function expoStore(functions: ExpoIAP): Store;

/** Of expo-iap, what purchases need beside it. */
export interface ExpoPurchasing extends Pick<ExpoIAP, "getAvailablePurchases"> {
  initConnection(): Promise<unknown>;
  requestPurchase(request: any): Promise<any>;
  finishTransaction(which: { purchase: any; isConsumable: boolean }): Promise<any>;
  purchaseUpdatedListener(listener: (purchase: any) => void): { remove(): void };
  purchaseErrorListener(listener: (error: any) => void): { remove(): void };
}

/**
 * An offer to buy a subscription with, by its identifier in App Store Connect. `transactionID` is of a user who has bought
 * nothing: the app transaction ID. A win-back offer is for iOS 18 and later.
 */
export type PurchaseOffer =
  { readonly promotional: string } |
  { readonly introductory: true; readonly transactionID?: string } |
  { readonly winBack: string };

export interface ExpoPurchases {
  /** The connection to the store; rejects where there is none. */
  readonly ready: Promise<unknown>;
  /**
   * Shows the App Store's sheet, posts the purchase, and finishes it. Rejects with a `CountersignError`, also with the store's
   * `cancelled` and `pending`. `verifying` is called between the sheet and the post. The service signs the `offer` before the
   * sheet, and where it is away the code is `offer_not_signed`; an introductory one needs an expo-iap that knows `compactJWS`.
   */
  buy(productID: string, how?: { verifying?: () => void; kind?: string | null; offer?: PurchaseOffer }): Promise<State>;
  /** Posts what the store account owns, and finishes what the service has recorded. */
  restore(how?: { verifying?: () => void; onProgress?: (progress: { completed: number; total: number }) => void }): Promise<Posted>;
  /** Ends the listeners. */
  remove(): void;
}

/**
 * Purchases of a user by expo-iap's functions, on iOS. Make it with the client, and keep it as long: whatever the store
 * delivers is posted, and finished when the service has recorded it. A user's UUID is signed into the transaction.
 */
export function expoPurchases(client: Client, user: string, functions: ExpoPurchasing): ExpoPurchases;
