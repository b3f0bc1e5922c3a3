import CountersignServer
import Files
import FoundationEssentials
import Glibc
import HTTPTransport
import Resilience

/// Writes RevenueCat's customers to a file of lines that `ImportedLine` reads, and goes on where a call before stopped.
///
///     customers.jsonl           a line for each customer with a purchase or with access
///     customers.jsonl.cursor    the next page, and the length of the file before it; gone when the file is complete
///
/// Source: "Developer API (2.0.0)", RevenueCat's reference: "List or search customers", "Get a list of subscriptions
/// associated with a customer", "Get a list of purchases associated with a customer", "List a customer's aliases" and
/// "Subscription Data Model".
struct RevenueCatCustomers: Sendable {
  struct Count: Hashable, Sendable {
    /// The customers of RevenueCat that were looked at.
    var customers = 0
    /// Those among them who are in the file.
    var lines = 0
  }

  var api: RevenueCatAPI
  /// As in the address of its dashboard.
  var project: String
  var path: String
  var show: @Sendable (Count) -> Void = { _ in }
  var now: @Sendable () -> Date = { Date() }

  /// Customers who are asked about at the same time.
  private static let width = 4

  private var cursor: String { path + ".cursor" }
  private var customers: String { "/v2/projects/\(project.percentEncoded)/customers" }

  /// Whether the file is there and nothing is missing.
  var isComplete: Bool { access(path, F_OK) == 0 && access(cursor, F_OK) != 0 }

  /// Where to go on.
  private struct Cursor: Codable {
    var project: String
    /// The path of the next page.
    var next: String
    /// The length of the file in bytes before that page.
    var bytes: Int
    var customers: Int
    var lines: Int
  }

  /// Returns when the file is complete.
  func gather() async throws(ServiceClient.Failure) -> Count {
    var place = try begin()
    let file: OpenFile
    do {
      file = try OpenFile(path, O_WRONLY | O_CREAT | O_NOFOLLOW, mode: 0o600)
      // A page that a former call left unfinished is written again.
      guard ftruncate(file.descriptor, off_t(place.bytes)) == 0, lseek(file.descriptor, 0, SEEK_END) >= 0 else {
        throw OpenFile.Failure.latest
      }
    } catch { throw unwritable }
    while true {
      let page: RevenueCatAPI.Page<Customer>
      do throws(ServiceClient.Failure) { page = try await api.page(place.next) } catch {
        guard case .notFound = error else { throw error }
        throw .refused("RevenueCat has no project \(Quotation.of(project)). Its ID is in the dashboard's address.")
      }
      let results: [Result<String?, ServiceClient.Failure>] = await mapConcurrently(
        page.items, width: Self.width, while: { if case .success = $0 { true } else { false } }
      ) { customer in await line(of: customer) }
      var text = ""
      for result in results {
        guard let line = try result.get() else { continue }
        text += line + "\n"
        place.lines += 1
      }
      // Cancelled before all had begun.
      guard results.count == page.items.count else { throw .cancelled }
      place.customers += page.items.count
      place.bytes += text.utf8.count
      do {
        try file.write(Array(text.utf8))
        try file.synchronize()
        guard let next = page.nextPage else {
          try NewFile.replace(cursor, with: "")
          return Count(customers: place.customers, lines: place.lines)
        }
        place.next = next
        try keep(place)
      } catch { throw unwritable }
      show(Count(customers: place.customers, lines: place.lines))
    }
  }

  /// The place where the call before stopped, or the first page.
  private func begin() throws(ServiceClient.Failure) -> Cursor {
    if access(cursor, F_OK) == 0 {
      guard let text = try? BoundedFile(path: cursor, limit: 1 << 16).bytes,
        let place = try? JSONDecoder().decode(Cursor.self, from: Data(text)), place.bytes >= 0
      else { throw .refused("\(Quotation.of(cursor, length: 4_096)) cannot be read. Remove it, to begin anew.") }
      guard place.project == project else {
        throw .refused(
          "\(Quotation.of(path, length: 4_096)) has customers of the project \(Quotation.of(place.project)). Name "
            + "another file.")
      }
      var status = stat()
      let isThere = stat(path, &status) == 0
      if isThere ? Int(status.st_size) >= place.bytes : place.bytes == 0 { return place }
    }
    let first = Cursor(project: project, next: customers + "?limit=100", bytes: 0, customers: 0, lines: 0)
    do {
      // The lines of a file before are other lines: what was settled of those says nothing about these.
      for suffix in [".progress", ".differences"] { try NewFile.replace(path + suffix, with: "") }
      try keep(first)
    } catch { throw unwritable }
    return first
  }

  private func keep(_ place: Cursor) throws {
    try NewFile.replace(cursor, with: String(decoding: try JSONEncoder().encode(place), as: UTF8.self))
  }

  private var unwritable: ServiceClient.Failure {
    .unreachable("\(Quotation.of(path, length: 4_096)) or the cursor beside it cannot be written")
  }

  // MARK: A customer

  private struct Customer: Decodable, Sendable {
    var id: String
  }

  private struct Alias: Decodable, Sendable {
    var id: String
    var createdAt: Double
  }

  private struct Entitlement: Decodable, Sendable {
    var lookupKey: String
  }

  private struct Subscription: Decodable, Sendable {
    var productId: String?
    var store: String
    var storeSubscriptionIdentifier: String?
    var startsAt: Double
    /// Milliseconds since 1970.
    var endsAt: Double?
    var givesAccess: Bool
    var entitlements: RevenueCatAPI.Page<Entitlement>
  }

  private struct Purchase: Decodable, Sendable {
    var productId: String?
    var store: String
    var storePurchaseIdentifier: String?
    var purchasedAt: Double
    var status: String
    var entitlements: RevenueCatAPI.Page<Entitlement>
  }

  /// A purchase of either kind.
  private struct Bought {
    var product: String
    var store: String
    var transaction: String?
    var at: Double
    /// The end of the access that it gives now; `nil` where it gives none, `.distantFuture` for life.
    var access: Date?
    var entitlements: RevenueCatAPI.Page<Entitlement>
  }

  /// - Returns: `nil` for one who has nothing to bring, or was deleted meanwhile.
  private func line(of customer: Customer) async -> Result<String?, ServiceClient.Failure> {
    do throws(ServiceClient.Failure) { return .success(try await readLine(of: customer)) } catch {
      guard case .notFound = error else { return .failure(error) }
      return .success(nil)
    }
  }

  private func readLine(of customer: Customer) async throws(ServiceClient.Failure) -> String? {
    // A dot may be a segment of its own, which clients resolve.
    let path = "\(customers)/\(customer.id.percentEncoded.replacing(".", with: "%2E"))"
    let moment = now()
    let subscriptions: [Subscription] = try await api.all(path + "/subscriptions?limit=100")
    let purchases: [Purchase] = try await api.all(path + "/purchases?limit=100")
    let bought =
      subscriptions.map { subscription in
        // In a grace period the end has passed.
        let end = subscription.endsAt.map { max(Date(timeIntervalSince1970: $0 / 1_000), moment) } ?? .distantFuture
        return Bought(
          product: subscription.productId ?? "", store: subscription.store,
          transaction: subscription.storeSubscriptionIdentifier,
          at: subscription.startsAt, access: subscription.givesAccess ? end : nil,
          entitlements: subscription.entitlements)
      }
      + purchases.map { purchase in
        Bought(
          product: purchase.productId ?? "", store: purchase.store, transaction: purchase.storePurchaseIdentifier,
          at: purchase.purchasedAt, access: purchase.status == "owned" ? .distantFuture : nil,
          entitlements: purchase.entitlements)
      }
    guard !bought.isEmpty else { return nil }

    var former = FormerCustomer(name: try await user(customer, path), saysTiers: true, at: moment)
    // Apple tells of every period of a subscription whose transaction it is asked about.
    var products: Set<[String]> = []
    for one in bought.sorted(by: { ($0.access != nil ? 1 : 0, $0.at) > ($1.access != nil ? 1 : 0, $1.at) })
    where products.insert([one.store, one.product]).inserted {
      former.add(store: one.store, transaction: one.transaction)
    }
    for one in bought {
      guard let end = one.access else { continue }
      for entitlement in try await api.rest(of: one.entitlements) {
        former.add(tier: entitlement.lookupKey, until: end, isGiven: one.store == ImportedLine.promotional)
      }
    }
    do { return try former.line() } catch { throw .unreachable("a customer cannot be written as JSON") }
  }

  /// The app's own name for a customer: RevenueCat's may be one that its SDK made up before the user signed in.
  private func user(_ customer: Customer, _ path: String) async throws(ServiceClient.Failure) -> String {
    guard FormerCustomer.isMadeUp(customer.id) else { return customer.id }
    let aliases: [Alias] = try await api.all(path + "/aliases?limit=100")
    return aliases.filter { !FormerCustomer.isMadeUp($0.id) }.max { $0.createdAt < $1.createdAt }?.id ?? customer.id
  }
}
