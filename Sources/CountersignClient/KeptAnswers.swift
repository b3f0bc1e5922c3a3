import CountersignAPI
import Foundation

/// An answer of the service's that is kept, with its entity tag, for when the service is away.
struct KeptAnswer: Codable, Sendable {
  var tag: String?
  var body: Data
  /// By the device's clock.
  var at: Date

  func decoded<Body: Decodable>(_ type: Body.Type) -> Body? {
    try? JSONDecoder.countersign.decode(type, from: body)
  }
}

extension CountersignClient {
  /// Asks for a document. An unchanged one is not sent twice.
  func answer<Body: Decodable>(
    _ type: Body.Type, to path: String, keptAs name: String, isOpen: Bool = false
  ) async throws -> Body {
    let kept = keptAnswer(name)
    let response = try await service.send(
      "GET", path, headers: kept?.tag.map { ["If-None-Match": $0] } ?? [:], isOpen: isOpen)
    if response.status == 304, let kept, let body = kept.decoded(type) {
      answers[name] = KeptAnswer(tag: kept.tag, body: kept.body, at: options.now())
      return body
    }
    let body = try response.decoded(type, now: options.now())
    try checkSignedIn()
    let fresh = KeptAnswer(tag: response.headers["etag"], body: response.body, at: options.now())
    answers[name] = fresh
    cache(try? JSONEncoder().encode(fresh), name)
    return body
  }

  /// The last answer, also of an earlier run of the app.
  func keptAnswer(_ name: String) -> KeptAnswer? {
    if let answer = answers[name] { return answer }
    guard let data = try? options.cache.read("\(name)@\(account)") else { return nil }
    answers[name] = try? JSONDecoder().decode(KeptAnswer.self, from: data)
    return answers[name]
  }

  func cache(_ data: Data?, _ name: String) {
    do { try options.cache.write(data, to: "\(name)@\(account)") } catch { report(.storage) }
  }
}
