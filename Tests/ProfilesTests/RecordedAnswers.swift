import Foundation
import HTTPTransport
import Testing

/// An answer of a real PostgREST 14.17 over PostgreSQL 15 to one request.
struct RecordedAnswer {
  let method: String
  let path: String
  let requestHeaders: [String: String]
  let response: TransportResponse

  static let all: [String: RecordedAnswer] = load()

  static func titled(_ title: String) throws -> RecordedAnswer { try #require(all[title], "no answer \(title)") }

  private static func load() -> [String: RecordedAnswer] {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Recorded/postgrest-14.17.json")
    guard let data = try? Data(contentsOf: file),
      let pairs = try? JSONSerialization.jsonObject(with: data) as? [[String: Any]]
    else { return [:] }
    var answers: [String: RecordedAnswer] = [:]
    for pair in pairs {
      guard let title = pair["title"] as? String, let request = pair["request"] as? [String: Any],
        let response = pair["response"] as? [String: Any], let status = response["status"] as? Int,
        let headers = response["headers"] as? [String: String]
      else { continue }
      let body = response["body"].flatMap { body in
        body is NSNull ? nil : try? JSONSerialization.data(withJSONObject: body)
      }
      answers[title] = RecordedAnswer(
        method: request["method"] as? String ?? "", path: request["path"] as? String ?? "",
        requestHeaders: request["headers"] as? [String: String] ?? [:],
        response: TransportResponse(
          status: status, headers: headers.map { TransportHeader($0.key, $0.value) }, body: body.map(Array.init) ?? []))
    }
    return answers
  }
}
