// A paywall for the App Store: to copy, and to change. Its states, prices and sentences are countersign/paywall's; what the review
// asks for (3.1.2) is here: title, length and price of each product, that it renews, Restore, Terms and Privacy.

import * as React from 'react';
import {ActivityIndicator, Alert, Linking, Pressable, ScrollView, Text, View, useColorScheme} from 'react-native';
import type {ExpoPurchases} from 'countersign/expo';
import {createPaywall, featureLines, priceLine} from 'countersign/paywall';
import type {Words} from 'countersign/paywall';
import {useClient} from 'countersign/react';

export interface PaywallProps {
  /** `usePurchases()` of Signed.tsx. */
  purchases: ExpoPurchases | null;
  /** The features to show, in this order, with their names for people: `{children: 'Children', filters: 'Advanced filters'}`. */
  features: {readonly [name: string]: string};
  title: string;
  termsURL: string;
  privacyURL: string;
  /** Where it was opened, for the events. */
  source: string;
  experiment?: string;
  /** In another language than English. */
  words?: Partial<Words>;
  labels?: {restore: string; terms: string; privacy: string; close: string; retry: string};
  done: () => void;
}

const english = {restore: 'Restore purchases', terms: 'Terms of Use', privacy: 'Privacy Policy', close: 'Close', retry: 'Try again'};
const light = {text: '#111111', dim: '#595959', back: '#ffffff', card: '#f2f2f7', accent: '#0057d9', on: '#ffffff'};
const dark = {text: '#f5f5f5', dim: '#b3b3b3', back: '#000000', card: '#1c1c1e', accent: '#66a3ff', on: '#000000'};
type Colours = typeof light;

export function Paywall({purchases, features, title, termsURL, privacyURL, source, experiment, words, labels = english, done}: PaywallProps) {
  const client = useClient();
  const colours = useColorScheme() === 'dark' ? dark : light;
  const paywall = React.useMemo(
    () => (client && purchases ? createPaywall({client, buy: purchases.buy, restore: purchases.restore, source, experiment, words}) : null),
    [client, purchases],
  );
  const state = React.useSyncExternalStore(paywall?.subscribe ?? never, () => paywall?.getSnapshot() ?? null);

  React.useEffect(() => {
    if (!paywall) return;
    purchases?.ready.then(() => paywall.load(), () => paywall.load());
    return () => paywall.dismiss();
  }, [paywall]);
  React.useEffect(() => {
    if (state?.phase !== 'success') return;
    if (state.message) Alert.alert(state.message);
    done();
  }, [state?.phase]);

  if (!paywall || !state) return <ActivityIndicator accessibilityLabel={title} />;
  const isBusy = state.phase === 'purchasing' || state.phase === 'verifying';

  return (
    <ScrollView style={{backgroundColor: colours.back}} contentContainerStyle={{padding: 20, gap: 16}}>
      <Text accessibilityRole="header" style={{color: colours.text, fontSize: 28, fontWeight: '700'}}>{title}</Text>
      {state.phase === 'loading_offerings' && <ActivityIndicator accessibilityLabel={title} />}
      {state.packages.map((item) => {
        const price = priceLine(item, paywall.words);
        const lines = featureLines(item.plan, features, paywall.words);
        const name = item.product?.displayName ?? item.plan?.name ?? '';
        return (
          <Pressable
            key={item.name}
            accessibilityRole="button"
            accessibilityLabel={[name, price, ...lines.map(({text}) => text)].join(', ')}
            accessibilityState={{disabled: isBusy, busy: isBusy && state.productID === item.productID}}
            disabled={isBusy}
            onPress={() => void paywall.buy(item)}
            style={{backgroundColor: colours.card, borderRadius: 14, padding: 16, gap: 6, opacity: isBusy ? 0.5 : 1}}
          >
            <Text style={{color: colours.text, fontSize: 18, fontWeight: '600'}}>{name}</Text>
            <Text style={{color: colours.text, fontSize: 16}}>{price}</Text>
            {lines.map(({name: feature, text}) => (
              <Text key={feature} style={{color: colours.dim, fontSize: 15}}>{text}</Text>
            ))}
          </Pressable>
        );
      })}
      {isBusy && <ActivityIndicator />}
      {state.message && (
        <Text accessibilityRole="alert" accessibilityLiveRegion="polite" style={{color: colours.text, fontSize: 16}}>{state.message}</Text>
      )}
      {state.phase === 'failed' && state.packages.length === 0 && (
        <Link label={labels.retry} colours={colours} onPress={() => void paywall.load()} />
      )}
      <Text style={{color: colours.dim, fontSize: 13}}>{paywall.words.renewal}</Text>
      <Link label={labels.restore} colours={colours} disabled={isBusy} onPress={() => void paywall.restore()} />
      <View style={{flexDirection: 'row', flexWrap: 'wrap', gap: 20}}>
        <Link label={labels.terms} role="link" colours={colours} onPress={() => void Linking.openURL(termsURL)} />
        <Link label={labels.privacy} role="link" colours={colours} onPress={() => void Linking.openURL(privacyURL)} />
      </View>
      <Link label={labels.close} colours={colours} onPress={done} />
    </ScrollView>
  );
}

const never = () => () => {};

interface LinkProps { label: string; colours: Colours; onPress: () => void; role?: 'button' | 'link'; disabled?: boolean }

function Link({label, colours, onPress, role = 'button', disabled = false}: LinkProps) {
  return (
    <Pressable accessibilityRole={role} accessibilityState={{disabled}} disabled={disabled} hitSlop={12} onPress={onPress}>
      <Text style={{color: colours.accent, fontSize: 16}}>{label}</Text>
    </Pressable>
  );
}
