import HTTPTransport
import Logging
import Synchronization
import TestSupport

@testable import Tokens

/// A log that hands on its messages.
private struct Log: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace
  var note: @Sendable (String) -> Void

  init(note: @escaping @Sendable (String) -> Void) { self.note = note }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { note("\(event.message)") }
}

/// A provider whose answers and clock a test sets.
final class KeySetProvider: Sendable {
  private struct State {
    var now = ContinuousClock.now
    var answer: Result<TransportResponse, TransportError> = .failure(.connect)
  }
  private let state = Mutex(State())
  private let box = Mutex<StubTransport?>(nil)
  private let messages = Mutex<[String]>([])

  /// The messages that the set logged.
  var log: String { messages.withLock { $0.joined(separator: "\n") } }

  func advance(by duration: Duration) { state.withLock { $0.now = $0.now.advanced(by: duration) } }
  func publish(_ keys: [String]) { say(TokenMint.set(keys)) }
  func say(_ text: String, status: Int = 200) {
    state.withLock { $0.answer = .success(TransportResponse(status: status, body: Array(text.utf8))) }
  }
  func goAway() { state.withLock { $0.answer = .failure(.timedOut) } }

  var fetches: Int { box.withLock { $0?.requests.count ?? 0 } }

  func keySet() -> RemoteKeySet {
    let transport = StubTransport { [self] (_) throws(TransportError) in
      try state.withLock { $0.answer }.get()
    }
    box.withLock { $0 = transport }
    return RemoteKeySet(
      url: "https://issuer.test/keys", transport: transport,
      logger: Logger(label: "test") { [self] _ in
        Log { [self] message in messages.withLock { $0.append(message) } }
      },
      clock: { [self] in state.withLock { $0.now } }, jitter: { $0 })
  }
}
