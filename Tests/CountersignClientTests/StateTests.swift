import Foundation
import Testing

@testable import CountersignClient

/// The worth of a kept token, by the clock, the keys and the user.
@Suite struct StateTests {
  /// A device that has fetched the token of a paying user.
  private func paid(pinned: Bool = true) async throws -> Bench {
    let bench = Bench()
    bench.service.set(tier: "pro", for: nil)
    try await bench.client(pinned: pinned).refresh()
    return bench
  }

  @Test func `a year offline is unknown, and known again at the first answer`() async throws {
    let bench = try await paid()
    bench.clock.advance(by: 365 * 86_400)
    let client = bench.client()
    #expect(client.state == .unknown)
    guard case .known(let access) = try await client.refresh() else { return #expect(Bool(false), "It is known.") }
    #expect(access.tier == "pro")
  }

  @Test func `a clock set forward makes it unknown until it is set right`() async throws {
    let bench = try await paid()
    let client = bench.client()
    bench.clock.advance(by: 8 * 86_400)
    #expect(client.state == .unknown)
    bench.clock.advance(by: -8 * 86_400)
    #expect(client.isAllowed("filters"))
  }

  @Test func `a clock set back makes it unknown; five minutes are forgiven`() async throws {
    let bench = try await paid()
    let client = bench.client()
    bench.clock.advance(by: -300)
    #expect(client.isAllowed("filters"))
    bench.clock.advance(by: -1)
    #expect(client.state == .unknown && !client.isAllowed("filters"))
  }

  @Test(arguments: [false, true])
  func `a client that was made before the first unlock of the device reads the token later`(pinned: Bool) async throws {
    let bench = try await paid(pinned: pinned)
    bench.storage.isBroken = true
    let client = bench.client(pinned: pinned)
    bench.storage.isBroken = false
    #expect(client.state == .unknown)
    bench.service.fail("token", .unreachable)
    var states = client.access.makeAsyncIterator()
    #expect(await states.next() == .unknown)
    await client.start()
    #expect(await states.next()?.access?.tier == "pro")
    #expect(client.isAllowed("filters"))
    await client.signOut()
  }

  @Test func `a forged token in the storage counts for nothing`() async throws {
    let bench = try await paid()
    guard let name = bench.storage.name("token"), let token = bench.storage.text("token") else {
      return #expect(Bool(false), "The token is kept.")
    }
    #expect(bench.client().isAllowed("filters"))
    let parts = token.split(separator: ".")
    let claims = String(decoding: Data(base64URL: parts[1]) ?? Data(), as: UTF8.self)
    let longer = base64URL(Data(claims.replacingOccurrences(of: "\"pro\"", with: "\"max\"").utf8))
    let forged = [
      "\(parts[0]).\(longer).\(parts[2])", "\(parts[0]).\(parts[1]).", "\(parts[0]).\(parts[1])", "", "...",
      "\(parts[0]).\(parts[1]).\(String(repeating: "A", count: 86))",
      "\(base64URL(Data(#"{"alg":"none","kid":"key-1","typ":"access+jwt"}"#.utf8))).\(parts[1]).\(parts[2])",
      "\(base64URL(Data(#"{"alg":"ES256","kid":"key-1","typ":"JWT"}"#.utf8))).\(parts[1]).\(parts[2])",
      String(repeating: "A", count: 100_000),
    ]
    for text in forged {
      try bench.storage.write(Data(text.utf8), to: name)
      #expect(bench.client().state == .unknown)
    }
  }

  @Test func `another user's token counts for nothing, wherever it comes from`() async throws {
    let bench = try await paid()
    guard let name = bench.storage.name("token"), let token = try bench.storage.read(name) else {
      return #expect(Bool(false), "The token is kept.")
    }
    try bench.storage.write(token, to: name.replacingOccurrences(of: Bench.user, with: "user-2"))
    #expect(bench.client(user: "user-2").state == .unknown)
    bench.service.name(subject: "user-3")
    let client = bench.client(user: "user-2")
    guard case .refused(code: "other_user", detail: _) = await failure({ try await client.refresh() }) else {
      return #expect(Bool(false), "It is refused.")
    }
    #expect(client.state == .unknown)
  }

  @Test func `a UUID is the same user in upper and lower case`() async throws {
    let bench = try await paid()
    #expect(bench.client(user: Bench.user.lowercased()).isAllowed("filters"))
  }

  @Test func `without a verifier nothing counts`() async throws {
    let bench = try await paid()
    let client = bench.client(verify: nil)
    #expect(client.state == .unknown)
    guard case .refused(code: "no_verifier", detail: _) = await failure({ try await client.refresh() }) else {
      return #expect(Bool(false), "It is refused.")
    }
  }

  @Test func `keys that are not pinned are fetched once and kept beside the token`() async throws {
    let bench = try await paid(pinned: false)
    let next = bench.client(pinned: false)
    #expect(next.isAllowed("filters"))
    try await next.refresh()
    #expect(bench.service.requests("GET /.well-known/jwks.json").count == 1)
    #expect(bench.service.requests("GET /.well-known/jwks.json").first?.headers["Authorization"] == nil)
  }

  @Test func `a new key is fetched where keys are not pinned, and refused where they are`() async throws {
    let bench = try await paid(pinned: false)
    bench.service.rotate(to: "key-2")
    #expect(try await bench.client(pinned: false).refresh().access?.tier == "pro")
    let pinned = bench.client()
    guard case .refused(code: "untrusted_token", detail: _) = await failure({ try await pinned.refresh() }) else {
      return #expect(Bool(false), "It is refused.")
    }
  }

  @Test func `signing out forgets the token and ends the stream`() async throws {
    let bench = try await paid()
    let client = bench.client()
    var states = client.access.makeAsyncIterator()
    #expect(await states.next()?.access?.tier == "pro")
    await client.signOut()
    #expect(client.state == .unknown)
    #expect(await states.next() == .unknown)
    #expect(await states.next() == nil)
    #expect(bench.storage.text("token") == nil)
    #expect(await failure { try await client.refresh() } == .signedOut)
    #expect(bench.client().state == .unknown)
  }

  @Test func `an answer that arrives after signing out is not kept`() async throws {
    let bench = Bench()
    let client = bench.client()
    bench.service.hold("token")
    let refresh = Task { try await client.refresh() }
    #expect(await eventually { bench.service.heldCount == 1 })
    await client.signOut()
    bench.service.release()
    #expect(await failure { try await refresh.value } == .signedOut)
    #expect(bench.storage.text("token") == nil && client.state == .unknown)
  }

  @Test func `a refresh that fails publishes what the clock says`() async throws {
    let bench = Bench()
    bench.service.set(tier: "pro")
    let client = bench.client()
    await client.start()
    let seen = Locked<AccessState?>(nil)
    let reader = Task { for await state in client.access { seen.withLock { $0 = state } } }
    #expect(await eventually { seen.withLock { $0?.access?.tier } == "pro" })
    bench.clock.jump(by: 8 * 86_400)
    bench.service.fail("token", .unreachable)
    #expect(await failure { try await client.refresh() } == .later(retryAfter: nil))
    #expect(await eventually { seen.withLock { $0 } == .unknown })
    reader.cancel()
    await client.signOut()
  }

  #if canImport(Observation)
    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @MainActor @Test func `the model follows the state`() async throws {
      let bench = Bench()
      let client = bench.client()
      let model = AccessModel(client)
      #expect(model.state == .unknown && !model.isAllowed("filters"))
      bench.service.set(tier: "pro")
      try await client.refresh()
      let isSeen = await eventually { model.state.access?.tier == "pro" }
      #expect(isSeen)
      #expect(model.isAllowed("filters"))
    }
  #endif
}
