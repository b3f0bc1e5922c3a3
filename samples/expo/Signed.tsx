// The client of the user whom Supabase has signed in, around the whole app. Any other identity provider: give `user` and
// `token` of its session.

import * as React from 'react';
import {AppState} from 'react-native';
import AsyncStorage from '@react-native-async-storage/async-storage';
import type {Session, SupabaseClient} from '@supabase/supabase-js';
import {fetchProducts, getAvailablePurchases, isEligibleForIntroOfferIOS} from 'expo-iap';
import {expoStore} from 'countersign/expo';
import {CountersignProvider} from 'countersign/react';

const store = expoStore({fetchProducts, getAvailablePurchases, isEligibleForIntroOfferIOS});

function onForeground(returned: () => void): () => void {
  const listener = AppState.addEventListener('change', (state: string) => {
    if (state === 'active') returned();
  });
  return () => listener.remove();
}

export function Signed({supabase, children}: {supabase: SupabaseClient; children: React.ReactNode}) {
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
      options={{baseURL: 'https://countersign.example.com', token, storage: AsyncStorage, store}}
      onForeground={onForeground}
    >
      {children}
    </CountersignProvider>
  );
}
