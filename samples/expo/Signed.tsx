// The client of the user whom Supabase has signed in, around the whole app. Any other identity provider: give `user` and
// `token` of its session.

import * as React from 'react';
import {AppState, Linking} from 'react-native';
import AsyncStorage from '@react-native-async-storage/async-storage';
import type {Session, SupabaseClient} from '@supabase/supabase-js';
import * as SecureStore from 'expo-secure-store';
import * as ExpoIAP from 'expo-iap';
import {expoPurchases, expoStore} from 'countersign/expo';
import type {ExpoPurchases} from 'countersign/expo';
import {CountersignProvider, useClient, useLinkAfterSignIn} from 'countersign/react';
import {trials} from 'countersign/trials';

const store = expoStore(ExpoIAP);
// The keychain, which outlives the app: a reinstalled app finds its trial.
const deviceTrials = trials({deviceStorage: {getItem: SecureStore.getItemAsync, setItem: SecureStore.setItemAsync}});

function onForeground(returned: () => void): () => void {
  const listener = AppState.addEventListener('change', (state: string) => {
    if (state === 'active') returned();
  });
  return () => listener.remove();
}

const Purchases = React.createContext<ExpoPurchases | null>(null);
/** To buy and to restore; null while nobody is signed in. */
export const usePurchases = () => React.useContext(Purchases);

/** Posts and finishes whatever the App Store delivers, as long as the user is signed in. */
function Buyer({user, children}: {user: string | null; children: React.ReactNode}) {
  const client = useClient();
  const [purchases, setPurchases] = React.useState<ExpoPurchases | null>(null);
  React.useEffect(() => {
    if (!client || !user) return;
    const made = expoPurchases(client, user, ExpoIAP);
    setPurchases(made);
    return () => {
      setPurchases(null);
      made.remove();
    };
  }, [client]);
  return <Purchases.Provider value={purchases}>{children}</Purchases.Provider>;
}

/** Opens a link to the app, such as a paywall's in a mail: at once, or when the user has signed in. */
function Opener({open}: {open: (url: string) => void}) {
  useLinkAfterSignIn({
    initial: () => Linking.getInitialURL(),
    listen: (opened) => {
      const listener = Linking.addEventListener('url', ({url}: {url: string}) => opened(url));
      return () => listener.remove();
    },
    open,
  });
  return null;
}

interface SignedProps { supabase: SupabaseClient; open: (url: string) => void; children: React.ReactNode }

export function Signed({supabase, open, children}: SignedProps) {
  const [user, setUser] = React.useState<string | null>(null);

  React.useEffect(() => {
    const {data} = supabase.auth.onAuthStateChange((_event: string, session: Session | null) => {
      setUser(session?.user.id ?? null);
    });
    return () => data.subscription.unsubscribe();
  }, [supabase]);

  async function token({fresh}: {fresh: boolean}): Promise<string | null> {
    const {data, error} = await (fresh ? supabase.auth.refreshSession() : supabase.auth.getSession());
    // Supabase that is away has signed nobody out.
    if (error?.name === 'AuthRetryableFetchError') throw error;
    return data.session?.access_token ?? null;
  }

  return (
    <CountersignProvider
      user={user}
      options={{baseURL: 'https://countersign.example.com', token, storage: AsyncStorage, store, trials: deviceTrials}}
      onForeground={onForeground}
    >
      <Opener open={open} />
      <Buyer user={user}>{children}</Buyer>
    </CountersignProvider>
  );
}
