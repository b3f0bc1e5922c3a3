// A settings page: the user's plan in words, what needs them, and Apple's page of subscriptions.

import * as React from 'react';
import {Button, Text, View} from 'react-native';
import {deepLinkToSubscriptions} from 'expo-iap';
import type {Profile} from 'countersign';
import {useAccess, useClient} from 'countersign/react';

function words({kind, at}: NonNullable<Profile['notice']>): string {
  if (kind === 'paymentFailed') return 'The last payment failed. Please check it in the App Store.';
  return kind === 'ended' ? 'Your plan has ended.' : `Your plan ends on ${at.toLocaleDateString()}.`;
}

export function SubscriptionScreen({openPaywall}: {openPaywall: () => void}) {
  const client = useClient();
  const state = useAccess();
  const [profile, setProfile] = React.useState<Profile | null>(null);

  React.useEffect(() => {
    client?.profile().then(setProfile, () => {});
  }, [client, state]);

  return (
    <View style={{flex: 1, padding: 16, gap: 12}}>
      <Text accessibilityRole="header">
        {state.kind === 'unknown' ? 'Your plan is not known yet.' : `Your plan: ${profile?.tierName ?? state.access.tier}`}
      </Text>
      {profile?.nextBillingAt && <Text>{`Renews on ${profile.nextBillingAt.toLocaleDateString()}.`}</Text>}
      {profile?.notice && <Text accessibilityRole="alert">{words(profile.notice)}</Text>}
      {client && client.waitingCount > 0 && <Text>A purchase waits to be confirmed.</Text>}
      {profile?.suggestion !== 'updatePayment' && <Button title="See the plans" onPress={openPaywall} />}
      <Button title="Manage the subscription" onPress={() => deepLinkToSubscriptions({})} />
    </View>
  );
}
