import Cryptography
package import HTTPTransport
import JSON
package import Resilience
import Synchronization

import struct FoundationEssentials.UUID

/// The client of Apple's DeviceCheck, which keeps two bits for each device and developer team.
///
/// A temporary failure is repeated once within the deadline, a refused key once with a fresh token. Everything but an
/// answer is an error, and no error says anything about the device.
///
///     200 and JSON          the bits
///     200 and plain text    never set
///     400                   `tokenRefused`, but `keyRefused` if its text is about the authorization token
///     401, also again       `keyRefused`
///     anything else, none   `away`
///
/// Apple answers 400 and "Missing or badly formatted authorization token" to keys of the wrong kind: those of App Store
/// Connect, or without DeviceCheck. No device is to blame for that.
///
/// https://developer.apple.com/documentation/devicecheck/accessing-and-modifying-per-device-data
package final class DeviceCheck: Sendable {
  private let transport: any Transport
  private let configuration: Configuration
  private let timing: CallTiming
  private let breakers: [Server: CircuitBreaker]
  private let observe: @Sendable (DeviceCheckAttempt) -> Void
  private let tokens: DeveloperTokens<Server>
  private let lastState = Mutex(State.unknown)

  /// - Parameters:
  ///   - breakers: one for each server.
  ///   - observe: called after every attempt, for log and metrics.
  package init(
    transport: any Transport, configuration: Configuration, timing: CallTiming = .live,
    breakers: [Server: CircuitBreaker] = [:], observe: @escaping @Sendable (DeviceCheckAttempt) -> Void = { _ in }
  ) {
    self.transport = transport
    self.configuration = configuration
    self.timing = timing
    self.breakers = breakers
    self.observe = observe
    tokens = DeveloperTokens { _, now throws(ES256PrivateKey.Failure) in try configuration.token(now: now) }
  }

  /// The state of both servers, by the last request that says something about it.
  package var state: State { lastState.withLock { $0 } }

  /// The bits of a device.
  ///
  /// - Returns: `nil` if they were never set, which is as good as two times `false`.
  package func query(
    _ token: DeviceToken, at server: Server = .production, deadline: ContinuousClock.Instant
  ) async throws(DeviceCheckError) -> DeviceBits? {
    try await ask(.query, body(token), at: server, deadline: deadline) { answer throws(JSONReader.Failure) in
      try await DeviceBits.read(answer)
    }
  }

  /// Sets both bits of a device.
  ///
  /// - Parameter token: not one that was in a query.
  package func update(
    _ token: DeviceToken, bit0: Bool, bit1: Bool, at server: Server = .production, deadline: ContinuousClock.Instant
  ) async throws(DeviceCheckError) {
    let body = body(token) { body in
      body.member("bit0", bit0)
      body.member("bit1", bit1)
    }
    try await ask(.update, body, at: server, deadline: deadline) { _ in }
  }

  private func body(_ token: DeviceToken, addMembers: (inout JSONWriter) -> Void = { _ in }) -> [UInt8] {
    JSONWriter.object { body in
      body.member("device_token", token.text.exposed)
      body.member("transaction_id", UUID().uuidString.lowercased())
      body.member("timestamp", Int64(timing.date().timeIntervalSince1970 * 1_000))
      addMembers(&body)
    }
  }

  private typealias Read<Answer> = ([UInt8]) async throws(JSONReader.Failure) -> Answer

  /// Asks, and records the result as evidence of Apple's health.
  private func ask<Answer: Sendable>(
    _ call: DeviceCheckAttempt.Call, _ body: [UInt8], at server: Server,
    deadline: ContinuousClock.Instant, read: Read<Answer>
  ) async throws(DeviceCheckError) -> Answer {
    do throws(DeviceCheckError) {
      let answer = try await attempts(call, body, at: server, deadline: deadline, read: read)
      note(.answering)
      return answer
    } catch {
      switch error {
      case .tokenRefused: note(.answering)
      case .keyRefused: note(.keyRefused)
      // Our own limits.
      case .away(.deadlinePassed), .away(.noAnswer(.overloaded)), .cancelled: break
      case .away: note(.unavailable)
      }
      throw error
    }
  }

  private func note(_ state: State) { lastState.withLock { $0 = state } }

  private func attempts<Answer: Sendable>(
    _ call: DeviceCheckAttempt.Call, _ body: [UInt8], at server: Server, deadline: ContinuousClock.Instant,
    read: Read<Answer>
  ) async throws(DeviceCheckError) -> Answer {
    /// The failure that the next attempt repeats.
    var repeated: DeviceCheckError?
    var attempt = 1
    while true {
      let failure: DeviceCheckError
      do throws(DeviceCheckError) {
        return try await self.attempt(call, body, at: server, repeating: repeated, deadline: deadline, read: read)
      } catch {
        failure = error
      }
      // A server without a closed breaker gets no second call for the same request.
      guard attempt < configuration.retry.attempts, breakers[server].map({ $0.state == .closed }) ?? true else {
        throw failure
      }
      attempt += 1
      switch failure.retry {
      case .no: throw failure
      case .atOnce: break
      case .afterPause(let least):
        let pause = max(timing.jitter(configuration.retry.ceiling(before: attempt)), least)
        guard timing.now().advanced(by: pause) < deadline else { throw failure }
        do { try await timing.sleep(pause) } catch { throw .cancelled }
      }
      repeated = failure
    }
  }

  private func attempt<Answer: Sendable>(
    _ call: DeviceCheckAttempt.Call, _ body: [UInt8], at server: Server, repeating repeated: DeviceCheckError?,
    deadline: ContinuousClock.Instant, read: Read<Answer>
  ) async throws(DeviceCheckError) -> Answer {
    guard !Task.isCancelled else { throw .cancelled }
    let started = timing.now()
    guard started < deadline else { throw repeated ?? .away(.deadlinePassed) }
    let token: DeveloperToken
    do { token = try tokens.token(for: server, now: timing.date()) } catch { throw .keyRefused }
    let permit: CircuitBreaker.Permit?
    switch breakers[server]?.admit() {
    case nil: permit = nil
    case .admitted(let admitted)?: permit = admitted
    case .refused(let retryIn)?: throw repeated ?? .away(.circuitOpen(retryIn: retryIn))
    }
    var failure: DeviceCheckError?
    defer {
      let health = failure?.health(given: deadline - started) ?? .success
      // A repeated failure is no news.
      permit?.report(repeated != nil && health != .success ? .neutral : health)
      observe(DeviceCheckAttempt(call: call, server: server, failure: failure, duration: timing.now() - started))
    }
    do throws(DeviceCheckError) {
      return try await send(call, body, token, to: server, deadline: deadline, read: read)
    } catch {
      failure = error
      throw error
    }
  }

  private func send<Answer: Sendable>(
    _ call: DeviceCheckAttempt.Call, _ body: [UInt8], _ token: DeveloperToken, to server: Server,
    deadline: ContinuousClock.Instant, read: Read<Answer>
  ) async throws(DeviceCheckError) -> Answer {
    let request = TransportRequest(
      method: .post, url: configuration.url(of: call, at: server),
      headers: [
        TransportHeader("Content-Type", "application/json"),
        TransportHeader("Authorization", "Bearer \(token.text.exposed)"),
      ],
      body: body, responseBodyLimit: configuration.answerLimit)
    let askedAt = timing.date()
    let response: TransportResponse
    do {
      response = try await transport.send(request, deadline: deadline)
    } catch .cancelled {
      throw .cancelled
    } catch {
      throw .away(.noAnswer(error))
    }
    switch response.status {
    case 200: break
    case 400 where !Self.isAboutOurToken(response.body): throw .tokenRefused
    case 400, 401:
      tokens.drop(token, for: server)
      throw .keyRefused
    case let status: throw .away(.http(status, retryAfter: CallResponse(response, askedAt: askedAt).retryAfter))
    }
    do {
      return try await read(response.body)
    } catch {
      switch error {
      case .cancelled: throw .cancelled
      case .json(let error): throw .away(.malformedAnswer(error.summary))
      }
    }
  }

  private static func isAboutOurToken(_ body: [UInt8]) -> Bool {
    String(decoding: body.prefix(128), as: UTF8.self).lowercased().contains("authorization token")
  }
}
