import ArgumentParser
import Foundation

/// A file of posts to the service, one in each line: `{"user_id":"user-1","receipt_data":"…"}`.
struct PostedBodies {
  struct Post: Decodable {
    var userID: String
    var receiptData: String

    enum CodingKeys: String, CodingKey {
      case userID = "user_id"
      case receiptData = "receipt_data"
    }
  }

  /// - Parameter limit: the most lines that are read.
  static func read(_ path: String, limit: Int) throws -> [Post] {
    guard let file = fopen(path, "r") else { throw ValidationError("\(path) cannot be read") }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    var posts: [Post] = []
    while posts.count < limit {
      let length = getline(&line, &capacity, file)
      guard length > 0, let line else { break }
      posts.append(try JSONDecoder().decode(Post.self, from: Data(bytes: line, count: length)))
    }
    return posts
  }
}
