import CountersignServer
import FoundationEssentials
import HTTPTransport
import Synchronization

/// Asks RevenueCat's REST API, version 2, more slowly than its limit.
///
/// Source: "Developer API (2.0.0)", RevenueCat's reference. "Rate Limit": 480 requests a minute for the domain Customer
/// Information; a 429 has `backoff_ms`, and `Retry-After` in seconds. "Error Handling": so may 423 and 5xx.
/// "Pagination": a list has `items`, and `next_page` until its last page.
final class RevenueCatAPI: Sendable {
  static let address = "https://api.revenuecat.com"
  static let deadline: Duration = .seconds(30)
  /// Bytes of an answer: a hundred subscriptions have some 300 KB.
  static let answerLimit = 4 << 20
  /// Pages of one customer's list.
  static let mostPages = 100
  /// The longest pause that is taken from an answer.
  private static let longestPause = 300.0

  private let transport: any Transport
  /// Without a slash at its end.
  let url: String
  private let key: String
  /// Between two requests.
  private let interval: Duration
  private let clock: @Sendable () -> ContinuousClock.Instant
  private let sleep: @Sendable (Duration) async throws -> Void
  /// The moment of the next request.
  private let next: Mutex<ContinuousClock.Instant>

  /// - Parameter rate: requests a minute.
  init(
    transport: any Transport, url: String = address, key: String, rate: Int,
    clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0, clock: .continuous) }
  ) {
    self.transport = transport
    self.url = url
    self.key = key
    interval = .seconds(60) / rate
    self.clock = clock
    self.sleep = sleep
    next = Mutex(clock())
  }

  /// A page of a list.
  struct Page<Item: Decodable & Sendable>: Decodable, Sendable {
    var items: [Item]
    /// A path or a URL; `nil` at the last page.
    var nextPage: String?
  }

  func page<Item: Decodable & Sendable>(_ path: String, of _: Item.Type = Item.self) async throws(ServiceClient.Failure)
    -> Page<Item>
  {
    let response: TransportResponse
    do throws(ServiceClient.Failure) {
      response = try await insistently(sleep: sleep) { () throws(ServiceClient.Failure) in try await send(path) }
    } catch {
      guard case .away(let reason, _) = error else { throw error }
      throw .unreachable(reason)
    }
    guard var page: Page<Item> = Self.decode(response) else {
      throw .unreachable("the answer to \(path.prefix { $0 != "?" }) is no list as RevenueCat's version 2 has it")
    }
    guard let next = page.nextPage else { return page }
    // The key goes to this server and to no other.
    let nextPath = next.hasPrefix(url + "/") ? String(next.dropFirst(url.count)) : next
    guard nextPath.hasPrefix("/v2/"), nextPath != path else {
      throw .unreachable("the next page of \(path.prefix { $0 != "?" }) cannot be \(Quotation.of(next))")
    }
    page.nextPage = nextPath
    return page
  }

  /// Every item of a list.
  func all<Item: Decodable & Sendable>(_ path: String, of _: Item.Type = Item.self) async throws(ServiceClient.Failure)
    -> [Item]
  { try await rest(of: Page<Item>(items: [], nextPage: path)) }

  /// The items of a page and of those after it.
  func rest<Item: Decodable & Sendable>(of first: Page<Item>) async throws(ServiceClient.Failure) -> [Item] {
    var page = first
    var items = page.items
    var pages = 0
    while let next = page.nextPage {
      guard pages < Self.mostPages else { throw .unreachable("a list of one customer has no end") }
      pages += 1
      page = try await self.page(next)
      items += page.items
    }
    return items
  }

  private func send(_ path: String) async throws(ServiceClient.Failure) -> TransportResponse {
    do { try await turn() } catch { throw .cancelled }
    let request = TransportRequest(
      method: .get, url: url + path,
      headers: [TransportHeader("Authorization", "Bearer \(key)"), TransportHeader("Accept", "application/json")],
      responseBodyLimit: Self.answerLimit)
    let response: TransportResponse
    do throws(TransportError) {
      response = try await transport.send(request, deadline: .now.advanced(by: Self.deadline))
    } catch { throw ServiceClient.Failure(error, deadline: Self.deadline, server: "RevenueCat") }
    switch response.status {
    case 200: return response
    case 401: throw .refusedCredential("the key is not known there: it has to be a secret key of version 2.")
    case 403:
      throw .refusedCredential(
        "the key may not read this project's customers: it needs the project's ID beside --from-revenuecat, and the "
          + "permissions customer_information: customers, subscriptions and purchases, read.")
    case 404: throw .notFound
    case 423, 429, 500...599:
      let pause = Self.pause(response)
      // Every other request waits, too: the limit is the key's.
      if let pause { next.withLock { $0 = max($0, clock() + pause) } }
      throw .away("RevenueCat answers \(response.status)", retryAfter: pause)
    case 400...499: throw .refused(Self.message(response) + ".")
    default: throw .unreachable("the answer is \(response.status); is it RevenueCat that listens there?")
    }
  }

  /// Waits for the turn of a request.
  private func turn() async throws {
    let (now, moment) = next.withLock { next in
      let now = clock()
      let moment = max(next, now)
      next = moment + interval
      return (now, moment)
    }
    if moment > now { try await sleep(moment - now) }
  }

  private struct Problem: Decodable {
    var message: String?
    /// Milliseconds.
    var backoffMs: Double?
  }

  /// - Returns: `nil` for an answer that is none.
  private static func decode<Value: Decodable>(_ response: TransportResponse) -> Value? {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try? decoder.decode(Value.self, from: Data(response.body))
  }

  private static func pause(_ response: TransportResponse) -> Duration? {
    let problem: Problem? = decode(response)
    let asked = problem?.backoffMs.map { Duration.milliseconds(max(0, min($0, longestPause * 1_000))) }
    return (asked ?? response.retryAfter()).map { min(max($0, .seconds(1)), .seconds(longestPause)) }
  }

  private static func message(_ response: TransportResponse) -> String {
    let problem: Problem? = decode(response)
    let words = problem?.message.map { ": " + ServiceClient.printable(String($0.prefix(300))) } ?? ""
    return "RevenueCat answers \(response.status)\(words)"
  }
}
