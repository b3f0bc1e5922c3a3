import type { ClientOptions, DeviceOptions, LogEntry, Storage, Trial, TrialEngine, TrialOptions, TrialParts } from "./countersign.js";

export interface DeviceSettings {
  /**
   * Where the device's ID is kept: the keychain, as expo-secure-store has it, which outlives the app. The client's storage,
   * where it is left out.
   */
  deviceStorage?: Pick<Storage, "getItem" | "setItem">;
  /**
   * Makes a token of Apple's DeviceCheck, in base64, for the start of a trial, within ten seconds; null where the device has
   * none.
   */
  deviceToken?: () => Promise<string | null> | string | null;
}

/** `trials` of a client's settings. */
export function trials(settings?: DeviceSettings): (parts: TrialParts) => TrialEngine;

export interface TrialsOptions extends Pick<ClientOptions, "baseURL" | "fetch" | "now" | "wait"> {
  /** One of the service's `auth.public_keys`. */
  publicKey: string;
  /** The keychain, as expo-secure-store has it: the device's ID and the sessions that wait outlive the app there. */
  storage?: Pick<Storage, "getItem" | "setItem">;
  deviceToken?: DeviceSettings["deviceToken"];
  log?: (entry: LogEntry) => void;
}

/** The trial of this device, in an app without accounts. Every error is a `CountersignError`. */
export interface Trials {
  /** Begins a trial, or finds the device's, running or over. Call it again where it rejects with `later`. */
  start(options?: TrialOptions): Promise<Trial>;
  /**
   * The trial; null where none has begun. While the service is away it is what is known without it, by the device's clock;
   * with a clock that was set back, `later`.
   */
  trial(): Promise<Trial | null>;
  /**
   * Uses a session; the last one ends the trial. While the service is away a running trial goes on: the session is kept, and
   * counted once when the service is back, at the next call of any of these. Rejects with the code `trial_over` where none is
   * left, and with `later` where nothing is known.
   */
  useSession(): Promise<Trial>;
  /** Tells the service of this device and its push token: the device that had the token before shares its trial. */
  register(options?: DeviceOptions): Promise<Trial | null>;
  /** Posts the sessions that wait. Where none do, no request is made. */
  sync(): Promise<void>;
  /** The number of sessions that the service has not counted yet. */
  readonly waitingCount: number;
}

export function createTrials(options: TrialsOptions): Trials;
