import Foundation

extension CountersignClient {
  /// The settings of an app, each with a default that is right for most.
  ///
  ///     var options = CountersignClient.Options()
  ///     options.keys = [SigningKey(kid: "…", x: "…", y: "…")]
  public struct Options: Sendable {
    /// The service's public keys, as they stand in its `/.well-known/jwks.json`. Pin them: whoever can write to the app's
    /// storage can then forge no access: users can prolong their own old one, on their own device, and no more. During a
    /// rotation name both. `nil`: they are fetched, and kept beside the token.
    public var keys: [SigningKey]?
    /// Checks the signature of a token. By CryptoKit on Apple's systems. Linux has no cryptography of its own: there the
    /// app has to bring a verifier, and without one no token counts, and the state is always unknown.
    public var verify: SignatureVerifier?
    /// The store that sells: StoreKit 2 on Apple's systems, none on others.
    public var store: (any Store)?
    /// The storage of the token and of the posts that wait: the keychain on Apple's systems, files on others.
    public var storage: any Storage
    /// The storage of what may be lost: the last answers of the service, and the app's own events. Files of the app.
    public var cache: any Storage
    /// The way to the service: URLSession by default.
    public var transport: any Transport
    /// The time limit of the app's `token`, in seconds. One that takes longer counts as trouble that passes.
    public var tokenDeadline: TimeInterval
    /// Makes a token of Apple's DeviceCheck for the start of a trial: `{ try await DCDevice.current.generateToken() }`. `nil`:
    /// none is sent.
    public var deviceToken: (@Sendable () async throws -> Data?)?
    /// The clock of the device.
    public var now: @Sendable () -> Date
    /// Waits, in seconds, and throws when the task is cancelled.
    public var sleep: @Sendable (TimeInterval) async throws -> Void
    /// Told of what goes wrong in the background, where no caller is there to be told.
    public var onError: @Sendable (CountersignError) -> Void
    /// Told of each request, and of what becomes of purchases, for a log of the app's; `nil`: nothing is told.
    public var log: (@Sendable (LogEntry) -> Void)?

    public init() {
      verify = systemVerifier
      #if canImport(StoreKit)
        store = AppStoreStore()
      #endif
      let folders = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)
      let folder = folders.first ?? FileManager.default.temporaryDirectory
      let files = FileStorage(directory: folder.appendingPathComponent("countersign", isDirectory: true))
      cache = files
      #if canImport(Security)
        storage = KeychainStorage()
      #else
        storage = files
      #endif
      transport = URLSessionTransport()
      tokenDeadline = 15
      now = { Date() }
      sleep = { seconds in try await Task.sleep(nanoseconds: UInt64(min(max(seconds, 0), 86_400 * 365) * 1_000_000_000))
      }
      onError = { _ in }
    }
  }
}
