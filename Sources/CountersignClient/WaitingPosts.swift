import Foundation

/// The signed transactions that the service has not answered yet, in storage, so that a kill of the app loses none.
struct WaitingPosts {
  struct Post: Codable, Hashable {
    var transactionID: UInt64
    var jws: String
  }

  /// More than a user buys while the service is away. The newest are kept: the App Store still has the others.
  static let maximum = 200

  private(set) var posts: [Post] = []

  init(_ json: Data?, then newer: [Post] = [], without done: Set<String> = []) {
    let kept = json.flatMap { try? JSONDecoder().decode([Post].self, from: $0) } ?? []
    let all = kept.filter { !newer.contains($0) } + newer
    posts = all.filter { !done.contains($0.jws) }.suffix(Self.maximum)
  }

  /// The stored form; `nil` where nothing waits.
  var json: Data? { posts.isEmpty ? nil : try? JSONEncoder().encode(posts) }

  func contains(_ transaction: StoreTransaction) -> Bool {
    posts.contains { $0.jws == transaction.jwsRepresentation }
  }

  mutating func add(_ transactions: [StoreTransaction]) {
    for transaction in transactions where !contains(transaction) {
      posts.append(Post(transactionID: transaction.id, jws: transaction.jwsRepresentation))
    }
    posts.removeFirst(max(0, posts.count - Self.maximum))
  }

  mutating func remove(_ transaction: StoreTransaction) {
    posts.removeAll { $0.jws == transaction.jwsRepresentation }
  }
}
