// A paywall with expo-iap 3.4 or later and Countersign: plans, purchase, restore. On iOS only: on Android `purchaseToken` is
// Google's.

import * as React from 'react';
import {Alert, Button, FlatList, Text, View} from 'react-native';
import {ErrorCode, deepLinkToSubscriptions, finishTransaction, getAvailablePurchases, useIAP} from 'expo-iap';
import type {Purchase, PurchaseError} from 'expo-iap';
import {CountersignError, Event} from 'countersign';
import type {Client, Package, Profile} from 'countersign';
import {useAccess} from 'countersign/react';

/**
 * Posts a purchase, and finishes it when the service has recorded it. Never before: an unfinished one comes again. An answer
 * that lacks the transaction (`transaction_found: false`) is an error here, and nothing is finished.
 */
export async function settle(client: Client, purchase: Purchase): Promise<void> {
  if (purchase.purchaseState === 'pending' || !purchase.purchaseToken) {
    throw new CountersignError('pending', 'pending', 'The purchase waits for somebody to approve it.');
  }
  await client.purchase(purchase.purchaseToken);
  await finishTransaction({purchase, isConsumable: false});
}

/** The store's error in the client's words. */
export function storeError(error: PurchaseError): CountersignError {
  const code = String(error.code);
  if (error.code === ErrorCode.UserCancelled) return new CountersignError('cancelled', code, 'Nothing was bought.');
  if (error.code === ErrorCode.DeferredPayment || error.code === ErrorCode.Pending) {
    return new CountersignError('pending', code, 'The purchase waits for somebody to approve it.');
  }
  return new CountersignError('refused', code, 'The App Store did not sell it.');
}

const sentences: Record<CountersignError['kind'], string | null> = {
  cancelled: null, // The user knows.
  pending: 'The purchase waits for approval. It counts as soon as it is given.',
  later: 'It is bought. It counts as soon as the network is back.',
  refused: 'This purchase cannot be used here.',
  signedOut: 'Please sign in again.',
};

function words({kind, at}: NonNullable<Profile['notice']>): string {
  if (kind === 'paymentFailed') return 'The last payment failed. Please check it in the App Store.';
  return kind === 'ended' ? 'Your plan has ended.' : `Your plan ends on ${at.toLocaleDateString()}.`;
}

function show(error: unknown): void {
  const sentence = error instanceof CountersignError ? sentences[error.kind] : 'Please try again.';
  if (sentence) Alert.alert(sentence);
}

/** `userId` is the user's UUID: Apple signs it into the transaction, and nobody else gets the purchase. */
export function PlansScreen({client, userId, done}: {client: Client; userId: string; done: () => void}) {
  const state = useAccess();
  const [packages, setPackages] = React.useState<readonly Package[]>([]);
  const [profile, setProfile] = React.useState<Profile | null>(null);

  /** After a purchase that the service has. If the refresh after it failed, the state is still the older one. */
  function recorded() {
    if (client.error) show(client.error);
    else if (client.access?.status !== 'expired') done();
  }

  const {connected, requestPurchase} = useIAP({
    // Also called for what was bought elsewhere, and for what was not finished when the app was killed.
    onPurchaseSuccess: (purchase) => {
      settle(client, purchase).then(recorded, show);
    },
    onPurchaseError: (error) => show(storeError(error)),
  });

  React.useEffect(() => {
    if (!connected) return;
    client.offerings().then(({current}) => setPackages(current?.packages ?? []), show);
    client.profile().then(setProfile, () => {});
    client.track(Event.paywallViewed, {source: 'plans'});
  }, [connected, client]);

  async function buy(sku: string) {
    client.track(Event.purchaseInitiated, {product: sku});
    // The outcome comes to the callbacks above.
    await requestPurchase({request: {apple: {sku, appAccountToken: userId}}, type: 'subs'}).catch(() => {});
  }

  async function restore() {
    try {
      const purchases = await getAvailablePurchases({
        alsoPublishToEventListenerIOS: false,
        onlyIncludeActiveItemsIOS: true,
      });
      const byToken = new Map<string, Purchase>();
      for (const purchase of purchases) if (purchase.purchaseToken) byToken.set(purchase.purchaseToken, purchase);
      const result = await client.restore(byToken.keys());
      for (const jws of result.done) {
        const purchase = byToken.get(jws);
        if (purchase) await finishTransaction({purchase, isConsumable: false});
      }
      if (byToken.size === 0) Alert.alert('This Apple account has nothing to restore.');
      else if (result.done.length === 0) show((result.refused[0] ?? result.kept[0]).error);
      else if (client.error) show(client.error);
    } catch (error) {
      show(error);
    }
  }

  return (
    <View style={{flex: 1, padding: 16, gap: 12}}>
      <Text accessibilityRole="header">
        {state.kind === 'unknown' ? 'Your plan is not known yet.' : `Your plan: ${profile?.tierName ?? state.access.tier}`}
      </Text>
      {profile?.nextBillingAt && <Text>{`Renews on ${profile.nextBillingAt.toLocaleDateString()}.`}</Text>}
      {profile?.notice && <Text accessibilityRole="alert">{words(profile.notice)}</Text>}
      <FlatList
        data={packages.filter(({product}) => product)}
        keyExtractor={(item: Package) => item.name}
        renderItem={({item}: {item: Package}) => (
          <Button title={`${item.product?.displayName}, ${item.product?.displayPrice}`} onPress={() => buy(item.productID)} />
        )}
      />
      <Button title="Restore purchases" onPress={restore} />
      <Button title="Manage the subscription" onPress={() => deepLinkToSubscriptions({})} />
    </View>
  );
}
